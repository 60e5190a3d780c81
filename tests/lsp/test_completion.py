"""What is offered while one types, over the protocol: when lists open, and what they say of values."""

from pathlib import Path

from server_session import Session

PIPELINE = (Path(__file__).parents[2] / "examples" / "mlp_pipeline.dir").read_text()


def test_lists_open_after_what_begins_a_name_and_say_the_types_of_the_call_shown(tmp_path):
    uri = (tmp_path / "mlp.dir").as_uri()
    with Session() as session:
        triggers = session.capabilities["completionProvider"]["triggerCharacters"]
        assert {"%", "@", "[", "(", ":", '"'} == {*triggers}  # `=` begins a list that the next letter closes
        session.open(uri, PIPELINE)
        session.until(uri, lambda status: status["state"] == "simulated")
        line = PIPELINE[: PIPELINE.index("%a = Relu(%h)")].count("\n")
        position = {"line": line, "character": PIPELINE.split("\n")[line].index("%h")}
        found = session.ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": position})
        details = {item["label"]: item["detail"] for item in found["items"]}
        assert details["%h"] == "Tensor[Float32, (8192, 1024), 1]"
