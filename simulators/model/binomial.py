"""The example that the demo builds: binomial coefficients, first wrong for large numbers, then exact."""

from simulators.model.steps import bash, edit, say, write

NAIVE_LINE = "        result = result * (n - k + i) / i"
EXACT_LINE = "        result = result * (n - k + i) // i"
BINOMIAL = f'''"""Binomial coefficients."""


def binomial(n: int, k: int) -> int:
    """The number of ways to choose k things out of n; 0 when k is larger than n."""
    if n < 0 or k < 0:
        raise ValueError("n and k must not be negative")
    if k > n:
        return 0
    k = min(k, n - k)
    result = 1
    for i in range(1, k + 1):
{NAIVE_LINE}
    return result
'''
BINOMIAL_TEST = """import unittest

from binomial import binomial


class BinomialTest(unittest.TestCase):
    def test_small_values(self):
        self.assertEqual([binomial(5, k) for k in range(7)], [1, 5, 10, 10, 5, 1, 0])

    def test_large_values_are_exact_integers(self):
        self.assertIsInstance(binomial(50, 25), int)
        self.assertEqual(binomial(200, 100) * 100, binomial(200, 99) * 101)

    def test_negative_arguments_are_refused(self):
        with self.assertRaises(ValueError):
            binomial(-1, 0)


if __name__ == "__main__":
    unittest.main()
"""
COMPUTE = "python3 -B -c 'from binomial import binomial; print(\"C(50,25) =\", binomial(50, 25))'"

BINOMIAL_TURN = [
    bash("git log --oneline -3 2>/dev/null; ls", "I'll look at what is there first."),
    write("binomial.py", BINOMIAL, "A first version of the function."),
    write("tests/test_binomial.py", BINOMIAL_TEST, "And a test for it."),
    edit(
        "binomial.py",
        NAIVE_LINE,
        EXACT_LINE,
        "The division yields floating-point numbers; integer arithmetic is exact.",
    ),
    bash("python3 -B -m unittest tests.test_binomial 2>&1", verdict=r"^(OK|FAILED.*)$"),
    bash(COMPUTE, "Now the value that was asked for.", result=r"C\(50,25\) = (\S+)"),
    say(
        "I added `binomial(n, k)` in `binomial.py` with exact integer arithmetic, and a test in "
        "`tests/test_binomial.py` ({found:verdict}). C(50,25) = {found:result}."
    ),
]
