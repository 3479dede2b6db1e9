"""The shapes of real credentials, each with the text that must occur for its pattern to be tried at all."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class SecretFormat:
    """`hints`: one of these literal texts stands in every match; looking for them first keeps scans fast."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _format(kind: str, hints: str, pattern: str, flags: int = 0) -> SecretFormat:
    return SecretFormat(kind, tuple(hints.split()), re.compile(pattern, flags))


# Every pattern takes time proportional to the text, whatever the text: it is a stranger's.
_NO_WORD_BEFORE = r"(?<![A-Za-z0-9])"

# Between a PEM header and its data: line ends (also escaped ones in source text), quotes, RFC 1421 header lines.
_PEM_BLANKS = r"(?:\\[nrt]|[\s\"'+,\\;()])*+"
_PEM_GAP = (
    _PEM_BLANKS + r"(?:(?:Proc-Type|DEK-Info|Comment|Version):[^\n\\]{0,100}+" + _PEM_BLANKS + r"){0,4}+"
)

SECRET_FORMATS: tuple[SecretFormat, ...] = (
    # GitHub's installation tokens have no fixed length or alphabet any more.
    _format("GitHub token", "ghs_", _NO_WORD_BEFORE + r"ghs_[A-Za-z0-9._-]{36,}"),
    _format("GitHub token", "ghp_ gho_ ghu_ ghr_", _NO_WORD_BEFORE + r"gh[pour]_[A-Za-z0-9]{36,}"),
    _format("GitHub token", "github_pat_", _NO_WORD_BEFORE + r"github_pat_[A-Za-z0-9_]{36,}"),
    _format("credential in a URL", "x-access-token:", r"x-access-token:[^\s:@/'\"<>{}$]{20,}@"),
    _format("Anthropic key", "sk-ant-", _NO_WORD_BEFORE + r"sk-ant-[A-Za-z0-9_-]{20,}"),
    _format(
        "OpenAI key",
        "sk-",
        _NO_WORD_BEFORE + r"sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{48}(?![A-Za-z0-9]))",
    ),
    _format(
        "AWS key id", "AKIA ASIA ABIA ACCA", r"(?<![A-Z0-9])A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])"
    ),
    _format(
        "AWS secret key",
        "secret_access_key SECRET_ACCESS_KEY SecretAccessKey secretAccessKey",
        r"secret_?access_?key[\"']?\s*[:=]\s*[\"']?[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
        re.IGNORECASE,
    ),
    _format(
        "private key",
        "PRIVATE",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----" + _PEM_GAP + r"[A-Za-z0-9+/]{16,}",
    ),
    _format("Slack token", "xox xapp-", _NO_WORD_BEFORE + r"(?:xox[abeoprs]-|xapp-\d-)[A-Za-z0-9-]{16,}"),
    _format(
        "Slack webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows)/T[\w/]{8,}/[A-Za-z0-9]{16,}",
    ),
    _format("Google API key", "AIza", _NO_WORD_BEFORE + r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
    _format("Google OAuth token", "ya29.", _NO_WORD_BEFORE + r"ya29\.[0-9A-Za-z_-]{30,}"),
    _format("Google OAuth secret", "GOCSPX-", _NO_WORD_BEFORE + r"GOCSPX-[0-9A-Za-z_-]{28}"),
    _format("Stripe key", "k_live_ k_test_", _NO_WORD_BEFORE + r"[sr]k_(?:live|test)_[0-9A-Za-z]{16,}"),
    _format("webhook signing secret", "whsec_", _NO_WORD_BEFORE + r"whsec_[0-9A-Za-z+/]{24,}"),
    _format("npm token", "npm_", _NO_WORD_BEFORE + r"npm_[0-9A-Za-z]{36}(?![0-9A-Za-z])"),
    _format("PyPI token", "pypi-", _NO_WORD_BEFORE + r"pypi-AgE[0-9A-Za-z_-]{40,}"),
    _format(
        "JSON web token",
        "eyJ",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{12,}\.eyJ[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{16,}",
    ),
    _format("Azure storage key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    _format("Azure access key", "SharedAccessKey=", r"SharedAccessKey=[A-Za-z0-9+/]{43}="),
    _format(
        "Azure client secret", "8Q~", r"(?<![\w~.-])[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}(?![\w~.-])"
    ),
    _format("GitLab token", "glpat-", _NO_WORD_BEFORE + r"glpat-[0-9A-Za-z_-]{20,}"),
    _format("SendGrid key", "SG.", _NO_WORD_BEFORE + r"SG\.[\w-]{22}\.[\w-]{43}"),
    _format("Hugging Face token", "hf_", _NO_WORD_BEFORE + r"hf_[A-Za-z0-9]{34,}"),
    _format("DigitalOcean token", "_v1_", _NO_WORD_BEFORE + r"do[opr]_v1_[a-f0-9]{64}"),
    _format("Daytona key", "dtn_", _NO_WORD_BEFORE + r"dtn_[a-f0-9]{40,}"),
    _format("Docker token", "dckr_pat_", _NO_WORD_BEFORE + r"dckr_pat_[A-Za-z0-9_-]{24,}"),
)
