"""The tables. One module per family; importing this package knows them all."""

from app.db.models.base import Base
from app.db.models.ci import CheckedHead
from app.db.models.credential import StoredCredential
from app.db.models.github import Delivery, Effect, GitHubWrite, HeardComment, Installation, Repository
from app.db.models.guardian import GuardianTrail, Intervention
from app.db.models.relay import Relay
from app.db.models.review import ReviewBatch, ReviewThread, ReviewWord, UnresolvedThread
from app.db.models.sandbox import Artifact, ArtifactChunk, Event, EventText, Message, ModelCall, Sandbox
from app.db.models.spec import CheckRun, EarlierPull, Phase, Spec, Task
from app.db.models.system import Lock, Operation, Process
from app.db.models.verdict import GuardianVerdict

__all__ = [
    "Artifact",
    "ArtifactChunk",
    "Base",
    "CheckRun",
    "CheckedHead",
    "Delivery",
    "EarlierPull",
    "Effect",
    "Event",
    "EventText",
    "GitHubWrite",
    "GuardianTrail",
    "GuardianVerdict",
    "HeardComment",
    "Installation",
    "Intervention",
    "Lock",
    "Message",
    "ModelCall",
    "Operation",
    "Phase",
    "Process",
    "Relay",
    "Repository",
    "ReviewBatch",
    "ReviewThread",
    "ReviewWord",
    "Sandbox",
    "Spec",
    "StoredCredential",
    "Task",
    "UnresolvedThread",
]
