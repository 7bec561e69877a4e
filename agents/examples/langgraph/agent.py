"""A LangGraph agent: two nodes, model and tools, until the model calls no tool any more.

Ends with 0: done; 1: the model did not answer; 4: too many turns.
"""

import os
import subprocess
import sys
import time

import openai
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

SYSTEM = "Solve the task with your tools. Nobody can answer questions. When you are done, answer in one sentence."
DEADLINE = float(os.environ["BENCH_DEADLINE"])


@tool
def run(command: str) -> str:
    """Run a command with bash, in the workspace."""
    left = max(DEADLINE - time.time() - 5, 1)
    try:
        done = subprocess.run(
            ["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=min(600, left), check=False
        )
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        return f"error: {error}"
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    shown = text if len(text) <= 8000 else f"{text[:4000]}\n[{len(text) - 8000} characters cut]\n{text[-4000:]}"
    return f"{shown}\n[status {done.returncode}]"


@tool
def write_file(path: str, content: str) -> str:
    """Write a text file; parents are made."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return f"wrote {len(content)} characters"


def main() -> int:
    # Address and key come from OPENAI_BASE_URL and OPENAI_API_KEY.
    model = ChatOpenAI(model=os.environ["BENCH_MODEL"], max_retries=0, timeout=900)
    tools = [run, write_file]
    asked = model.bind_tools(tools)

    def ask(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [asked.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    with open(os.environ["BENCH_TASK_FILE"], encoding="utf-8") as file:
        start = {"messages": [SystemMessage(SYSTEM), HumanMessage(file.read())]}
    # A step of a graph is a node, and a turn is two of them; the gateway's limit is to come first.
    most = 2 * int(os.environ["BENCH_MAX_STEPS"]) + 3
    try:
        graph.compile().invoke(start, {"recursion_limit": most})
    except GraphRecursionError as error:
        print(error, file=sys.stderr)
        return 4
    except openai.OpenAIError as error:  # 402 is a limit of the run: stop asking
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
