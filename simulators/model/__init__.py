"""The scripted model: a stand-in for the Messages API that plays scenarios written as data.

`python -m simulators model` starts it as a process (`simulators.model.server`), `ModelSimulator` is the
same thing inside one's own process. Production code may not import it.
"""

from simulators.model.script import Fault, FaultRule, MessageRule, Script, Step, Subagent, ToolUse
from simulators.model.simulator import ModelSimulator

__all__ = ["Fault", "FaultRule", "MessageRule", "ModelSimulator", "Script", "Step", "Subagent", "ToolUse"]
