"""Hover, hints, lenses, tokens and requests of our own, over the wire, with what Neovim and VS Code declare."""

import asyncio
import sys
from pathlib import Path

import pytest
from lsprotocol import types

sys.path.insert(0, str(Path(__file__).parent.parent / "ide"))
from reading_samples import PIPELINE
from reading_session import NEOVIM, ask, columns, open_text, position_of, session, simulated
from server_session import PATIENCE_S

WITH_ACCENTS = PIPELINE.replace("func @main", "/* 𝄞 é */ func @main").replace("  %p_1:", "  /* 𝄞𝄞 */ %p_1:")


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario, PATIENCE_S))


@pytest.mark.parametrize("capabilities", [NEOVIM, None], ids=["neovim", "vs code"])
def test_reading_a_program(tmp_path, capabilities):
    async def scenario():
        async with session(capabilities) as client:
            uri = open_text(client, tmp_path / "p.dir", WITH_ACCENTS)
            assert (await simulated(client, uri))["state"] == "simulated"
            await hover(client, uri)
            await hints(client, uri)
            await lenses(client, uri)
            await tokens(client, uri)

    run(scenario())


async def hover(client, uri):
    document = types.TextDocumentIdentifier(uri)
    place = position_of(WITH_ACCENTS, "%p_1: D2", client.encoding)
    found = await client.text_document_hover_async(types.HoverParams(document, place))
    assert "%p_1: Tensor[Float32, (100, 100), 2]" in found.contents.value
    assert found.range == types.Range(place, types.Position(place.line, place.character + 4))
    nowhere = await client.text_document_hover_async(types.HoverParams(document, types.Position(10_000, 7)))
    assert nowhere is None


async def hints(client, uri):
    document = types.TextDocumentIdentifier(uri)
    place = position_of(WITH_ACCENTS, "%p_1: D2", client.encoding)
    asked = types.InlayHintParams(document, types.Range(types.Position(place.line, 0), types.Position(place.line, 5)))
    found = await client.text_document_inlay_hint_async(asked)
    assert {hint.position.line for hint in found} == {place.line}
    line = WITH_ACCENTS.splitlines()[place.line]
    end = columns(line, client.encoding)
    assert [(h.label[:5], h.position.character) for h in found][:1] == [(" f32[", place.character + 8)]
    assert (found[1].label.strip()[:1], found[1].position.character) == ("+", end)
    resolved = await client.inlay_hint_resolve_async(found[0])
    assert "40.0kB on device 2" in resolved.tooltip.value
    whole = types.Range(types.Position(0, 0), types.Position(2**31 - 1, 0))
    assert len(await client.text_document_inlay_hint_async(types.InlayHintParams(document, whole))) > 20


async def lenses(client, uri):
    found = await client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
    assert len(found) == 7
    titles = [(await client.code_lens_resolve_async(lens)).command.title for lens in found]
    assert titles[1] == "4 calls, shown: 1, by @main, line 14"
    assert "peak 1: 240kB" in titles[2]


async def tokens(client, uri):
    document = types.TextDocumentIdentifier(uri)
    full = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(document))
    assert len(full.data) % 5 == 0
    assert all(column >= 0 for column in full.data[1::5])
    same = await client.text_document_semantic_tokens_full_delta_async(
        types.SemanticTokensDeltaParams(document, full.result_id)
    )
    assert not same.edits
    change = types.TextDocumentContentChangePartial(
        types.Range(types.Position(2, 2), types.Position(2, 2)), "%extra = Relu(%x)\n  "
    )
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(2, uri), [change])
    )
    await simulated(client, uri)
    delta = await client.text_document_semantic_tokens_full_delta_async(
        types.SemanticTokensDeltaParams(document, same.result_id)
    )
    patched = list(full.data)
    for edit in delta.edits:
        patched[edit.start : edit.start + edit.delete_count] = edit.data
    afresh = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(document))
    assert patched == list(afresh.data)
    span = types.Range(types.Position(0, 0), types.Position(10_000, 0))
    ranged = await client.text_document_semantic_tokens_range_async(types.SemanticTokensRangeParams(document, span))
    assert list(ranged.data) == list(afresh.data)


def test_requests_of_our_own(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "p.dir", PIPELINE)
            document = {"uri": uri}
            status = await simulated(client, uri)
            assert (status["protocol"], status["state"], status["function"]) == (1, "simulated", "main")

            timeline = await ask(client, "distir/timeline", textDocument=document)
            assert len(timeline["bars"]) == timeline["events"] == 11
            assert timeline["latency_s"] == status["latency_s"]
            ends = [bar["start_s"] + bar["duration_s"] for bar in timeline["bars"]]
            assert max(ends) == pytest.approx(timeline["latency_s"])
            send = next(bar for bar in timeline["bars"] if bar["label"] == "%ar_1")
            assert send["range"]["start"] == {"line": 14, "character": 2}
            assert send["devices"] == [1, 2]
            first = await ask(client, "distir/timeline", textDocument=document, limit=4)
            rest = await ask(client, "distir/timeline", textDocument=document, firstEvent=first["next_event"])
            assert first["bars"] + rest["bars"] == timeline["bars"]
            second = await ask(client, "distir/timeline", textDocument=document, devices=[2])
            assert second["bars"] == [bar for bar in timeline["bars"] if 2 in bar["devices"]]
            columns = await ask(client, "distir/timeline", textDocument=document, columns=True)
            table = columns["table"]
            assert columns["bars"] == []
            assert table["start_s"] == [bar["start_s"] for bar in timeline["bars"]]
            assert [table["origins"][i]["range"] for i in table["origin"]] == [b["range"] for b in timeline["bars"]]

            memory = await ask(client, "distir/memory", textDocument=document)
            for curve in memory["memories"]:
                assert max(nbytes for _, nbytes in curve["points"]) == curve["peak_bytes"]
                assert sum(value["nbytes"] for value in curve["values"]) == curve["peak_bytes"]

            rank = await ask(client, "distir/rankProgram", textDocument=document, rank=2)
            assert rank["ranks"] == [1, 2]
            assert "Send" in rank["text"]
            assert all(link["range"] for link in rank["links"])
            none = await ask(client, "distir/rankProgram", textDocument=document, rank=7)
            assert none["error"] == "nothing runs on device 7; there are 1, 2"

    run(scenario())


def test_comparing_and_other_machines(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "p.dir", PIPELINE)
            document = {"uri": uri}
            before = await simulated(client, uri)
            same = await ask(client, "distir/compare", textDocument=document)
            assert same["speedup"] == 1
            assert same["this_parting"] is same["other_parting"] is None
            slower = await ask(client, "distir/compare", textDocument=document, other={"hardware": "dgx2-v100"})
            assert slower["other"]["hardware"] == "dgx2-v100"
            assert slower["speedup"] > 1
            text = PIPELINE.replace("Relu", "Tanh")
            other = await ask(client, "distir/compare", textDocument=document, other={"text": text})
            assert other["other_parting"]["op"] == "Tanh"
            assert other["this_parting"]["op"] == "Relu"
            missing = await ask(client, "distir/compare", textDocument=document, other={"uri": "file:///no/such"})
            assert "cannot read" in missing["error"]

            listed = await ask(client, "distir/hardware")
            assert "dgx2-v100" in [profile["name"] for profile in listed["profiles"]]
            change = {"nvlink send bandwidth": "1GB/s"}
            tried = await ask(client, "distir/hardware", textDocument=document, action="whatIf", changes=change)
            assert tried["comparison"]["this"]["latency_s"] > before["latency_s"]
            assert (await simulated(client, uri))["latency_s"] == before["latency_s"], "trying changes nothing"
            wrong = await ask(
                client,
                "distir/hardware",
                textDocument=document,
                action="whatIf",
                changes={"nvlink sendbandwidth": "1GB/s"},
            )
            assert "did you mean `nvlink send bandwidth`?" in wrong["error"]
            await ask(client, "distir/hardware", textDocument=document, action="choose", name="dgx2-v100")
            after = await simulated(client, uri)
            assert after["hardware"] == "dgx2-v100"
            assert after["latency_s"] > before["latency_s"]
            unknown = await ask(client, "distir/hardware", textDocument=document, action="choose", name="dgx2-v10")
            assert "unknown hardware" in unknown["error"]

    run(scenario())


def test_picking_a_call_by_request_and_by_lens(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "p.dir", PIPELINE)
            document, params = {"uri": uri}, types.TextDocumentIdentifier(uri)
            await simulated(client, uri)
            calls = (await ask(client, "distir/calls", textDocument=document, function="@dense"))["calls"]
            assert [call["shown"] for call in calls] == [True, False, False, False]
            await ask(client, "distir/calls", textDocument=document, function="dense", pick=2)
            await simulated(client, uri)
            place = position_of(PIPELINE, "%h")
            said = await client.text_document_hover_async(types.HoverParams(params, place))
            assert "on device 2" in said.contents.value
            lens = (await client.text_document_code_lens_async(types.CodeLensParams(params)))[1]
            command = (await client.code_lens_resolve_async(lens)).command
            assert command.title.startswith("4 calls, shown: 3")
            await client.workspace_execute_command_async(
                types.ExecuteCommandParams(command.command, arguments=command.arguments)
            )
            await simulated(client, uri)
            calls = (await ask(client, "distir/calls", textDocument=document, function="dense"))["calls"]
            assert [call["shown"] for call in calls] == [False, False, False, True]

    run(scenario())


MALFORMED = (
    {},
    {"textDocument": 3},
    {"textDocument": {"uri": "file:///not/open.dir"}},
    {"textDocument": {"uri": 7}, "rank": "x"},
)


def test_a_malformed_request_is_answered_with_why(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "p.dir", PIPELINE)
            for name in ("timeline", "memory", "rankProgram", "compare", "status", "calls"):
                for params in MALFORMED:
                    answer = await ask(client, f"distir/{name}", **params)
                    assert answer["protocol"] == 1
                    assert answer["error"]
            answer = await ask(client, "distir/rankProgram", textDocument={"uri": uri}, rank="x")
            assert answer["error"] == "expected an integer as `rank`, found `x`"

    run(scenario())


def test_a_program_with_errors_is_read_all_the_same(tmp_path):
    text = PIPELINE.replace("Relu(%h)", "Relu(%h", 1)

    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "p.dir", text)
            status = await simulated(client, uri)
            assert (status["state"], status["errors"]) == ("failed", 1)
            place = position_of(text, "%ar_1")
            said = await client.text_document_hover_async(types.HoverParams(types.TextDocumentIdentifier(uri), place))
            assert "%ar_1: " in said.contents.value
            answer = await ask(client, "distir/timeline", textDocument={"uri": uri})
            assert answer["error"] == "the program has errors"

    run(scenario())


def test_after_a_syntax_error_what_is_shown_of_the_last_simulation_is_marked(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "p.dir", PIPELINE)
            before = await simulated(client, uri)
            assert (before["stale"], before["stale_why"]) == (False, None)
            place = position_of(PIPELINE, ", %ar_2)\n  return")
            comma = types.Range(place, types.Position(place.line, place.character + 1))
            change = types.TextDocumentContentChangePartial(comma, "")
            document = types.VersionedTextDocumentIdentifier(uri=uri, version=2)
            client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
            after = await simulated(client, uri)
            why = "stale, simulated 1 edit ago: the program has errors (line 19, "
            assert (after["state"], after["stale"], after["latency_s"]) == ("failed", True, before["latency_s"])
            assert after["stale_why"].startswith(why)
            whole = types.Range(types.Position(0, 0), types.Position(99, 0))
            about = types.TextDocumentIdentifier(uri)
            hints = await client.text_document_inlay_hint_async(types.InlayHintParams(about, whole))
            timed = [hint for hint in hints if "@" in hint.label and hint.label.strip()[0] in "+~"]
            assert timed
            assert all(hint.label.strip().startswith("~") for hint in timed)
            resolved = await client.inlay_hint_resolve_async(timed[0])
            assert why in resolved.tooltip.value
            lenses = await client.text_document_code_lens_async(types.CodeLensParams(about))
            titles = [(await client.code_lens_resolve_async(lens)).command.title for lens in lenses]
            assert len([title for title in titles if title[0] == "~" and "stale: the program has errors" in title]) == 2

    run(scenario())


def test_hints_are_as_long_as_the_client_says(tmp_path):
    whole = types.Range(types.Position(0, 0), types.Position(99, 0))
    text = PIPELINE.replace(": D1", "").replace(": D2", "")

    async def scenario():
        given = (({}, ": 2×f32[100,100]@1"), ({"length": 22}, ": 2×f32[…]@1"), ({"columns": 1}, "+7.09us @0.00us"))
        for options, label in given:
            async with session(options={"hints": options}) as client:
                uri = open_text(client, tmp_path / "p.dir", text)
                await simulated(client, uri)
                asked = types.InlayHintParams(types.TextDocumentIdentifier(uri), whole)
                hints = await client.text_document_inlay_hint_async(asked)
                split = [h for h in hints if h.position.line == position_of(text, "Split").line]
                assert split[0].label.strip() == label

    run(scenario())
