"""Navigation, editing and code actions as an editor asks for them, over standard input and output."""

import asyncio
import time
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from reading_session import end
from server_session import PATIENCE_S
from warm_servers import COMMAND, warm

ROOT = Path(__file__).parents[2]
PIPELINE = (ROOT / "examples/mlp_pipeline_swapped.dir").read_text()
REFRESHED = (
    types.WORKSPACE_INLAY_HINT_REFRESH,
    types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
    types.WORKSPACE_CODE_LENS_REFRESH,
)
BROKEN = """\
func @f(%x: Tensor[Float32, (4, 4), 1], %y: Tensor[Float32, (4, 4), 2]) {
  // café 😀
  %ab = Relu(%x) /* 😀 */
  %c = Add(%ab, %y)
  %d = Gemm(%ab,
  return %c
}
"""


SERVER = ClientServerConfig(server_command=COMMAND)


@pytest.fixture(scope="module", autouse=True)
def _warm():
    warm()


def vs_code():
    """What VS Code declares of the features tested here."""
    text = types.TextDocumentClientCapabilities(
        completion=types.CompletionClientCapabilities(
            completion_item=types.ClientCompletionItemOptions(snippet_support=True)
        ),
        signature_help=types.SignatureHelpClientCapabilities(
            signature_information=types.ClientSignatureInformationOptions(
                parameter_information=types.ClientSignatureParameterInformationOptions(label_offset_support=True)
            )
        ),
        document_symbol=types.DocumentSymbolClientCapabilities(hierarchical_document_symbol_support=True),
        code_action=types.CodeActionClientCapabilities(
            data_support=True, resolve_support=types.ClientCodeActionResolveOptions(properties=["edit"])
        ),
    )
    edit = types.WorkspaceEditClientCapabilities(
        document_changes=True, resource_operations=[types.ResourceOperationKind.Create]
    )
    workspace = types.WorkspaceClientCapabilities(workspace_edit=edit)
    general = types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16])
    return types.ClientCapabilities(text_document=text, workspace=workspace, general=general)


async def started(client, tmp_path, capabilities):
    (tmp_path / "other.dir").write_text("func @elsewhere(%x) {\n  return %x\n}\n")
    client.folder = tmp_path
    for method in REFRESHED:
        client.feature(method)(lambda *_: None)
    folders = [types.WorkspaceFolder(tmp_path.as_uri(), "workspace")]
    await client.initialize_session(types.InitializeParams(capabilities=capabilities, workspace_folders=folders))


@pytest_lsp.fixture(config=SERVER)
async def editor(lsp_client: LanguageClient, tmp_path):
    """Neovim."""
    await started(lsp_client, tmp_path, client_capabilities("neovim@v0.11.0"))
    yield
    await end(lsp_client)


@pytest_lsp.fixture(config=SERVER)
async def code(lsp_client: LanguageClient, tmp_path):
    """VS Code."""
    await started(lsp_client, tmp_path, vs_code())
    yield
    await end(lsp_client)


def opened(editor, text, name="program.dir"):
    uri = (editor.folder / name).as_uri()
    editor.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "distir", 1, text)))
    return types.TextDocumentIdentifier(uri)


def place(text, words, inside=1):
    """The position inside of some words, in UTF-16 units."""
    offset = text.index(words) + inside
    line = text.count("\n", 0, offset)
    before = text[text.rfind("\n", 0, offset) + 1 : offset]
    return types.Position(line, len(before.encode("utf-16-le")) // 2)


def applied(text, edits):
    lines = text.splitlines(keepends=True) + [""]

    def offset(position):
        units = lines[position.line].encode("utf-16-le")[: 2 * position.character]
        return sum(map(len, lines[: position.line])) + len(units.decode("utf-16-le"))

    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def of(edit):
    """The edits of one document."""
    if edit.changes:
        (edits,) = edit.changes.values()
        return edits
    return [e for change in edit.document_changes for e in change.edits]


async def actions_at(editor, document, position, diagnostics=(), only=None):
    context = types.CodeActionContext(list(diagnostics), only=only, trigger_kind=types.CodeActionTriggerKind.Invoked)
    params = types.CodeActionParams(document, types.Range(position, position), context)
    return await editor.text_document_code_action_async(params)


@pytest.mark.asyncio(loop_scope="function")
async def test_names_lead_to_their_definitions(editor: LanguageClient):
    document = opened(editor, BROKEN)
    at = place(BROKEN, "%ab, %y")
    (found,) = await editor.text_document_definition_async(types.DefinitionParams(document, at))
    assert (found.range.start.line, found.range.start.character, found.range.end.character) == (2, 2, 5)
    context = types.ReferenceContext(include_declaration=True)
    every = await editor.text_document_references_async(types.ReferenceParams(context, document, at))
    assert [r.range.start.line for r in every] == [2, 3, 4]
    marks = await editor.text_document_document_highlight_async(types.DocumentHighlightParams(document, at))
    assert [m.kind for m in marks][:2] == [types.DocumentHighlightKind.Write, types.DocumentHighlightKind.Read]
    (origin,) = await editor.text_document_type_definition_async(types.TypeDefinitionParams(document, at))
    assert origin.range.start == place(BROKEN, "Tensor", 0)


@pytest.mark.asyncio(loop_scope="function")
async def test_symbols_calls_folds_and_selections(editor: LanguageClient):
    document = opened(editor, PIPELINE)
    found = await editor.text_document_document_symbol_async(types.DocumentSymbolParams(document))
    assert [s.name for s in found] == ["@dense", "@denseGrad", "@lossGrad", "@mlpPP"]
    assert "Pipeline" in [s.name for s in found[-1].children]
    everywhere = await editor.workspace_symbol_async(types.WorkspaceSymbolParams("e"))
    assert {"@elsewhere", "@dense"} <= {s.name for s in everywhere}
    at = place(PIPELINE, "@dense(")
    (item,) = await editor.text_document_prepare_call_hierarchy_async(types.CallHierarchyPrepareParams(document, at))
    (call,) = await editor.call_hierarchy_incoming_calls_async(types.CallHierarchyIncomingCallsParams(item))
    assert call.from_.name == "@mlpPP"
    assert call.from_.detail.startswith("4 calls, ")
    assert len(call.from_ranges) == 4
    down = await editor.call_hierarchy_outgoing_calls_async(types.CallHierarchyOutgoingCallsParams(call.from_))
    assert {c.to.name for c in down} == {"@dense", "@denseGrad", "@lossGrad"}
    folds = await editor.text_document_folding_range_async(types.FoldingRangeParams(document))
    assert all(f.start_line < f.end_line for f in folds)
    (chosen,) = await editor.text_document_selection_range_async(types.SelectionRangeParams(document, [at]))
    widths = []
    while chosen is not None:
        widths.append(chosen.range)
        chosen = chosen.parent
    assert widths[-1].start == types.Position(0, 0)
    assert len(widths) > 2


@pytest.mark.asyncio(loop_scope="function")
async def test_completion_and_signatures_in_broken_text(editor: LanguageClient):
    document = opened(editor, BROKEN)
    at = place(BROKEN, "Gemm(%ab,", len("Gemm(%ab,"))
    found = await editor.text_document_completion_async(types.CompletionParams(document, at))
    assert [i.label for i in found.items] == ["%c", "%x", "%ab", "%y"]  # `%y` is elsewhere
    assert [bool(i.additional_text_edits) for i in found.items] == [False, False, False, True]
    help_ = await editor.text_document_signature_help_async(types.SignatureHelpParams(document, at))
    assert "a: Tensor[Float32, (4, 4), 1]" in help_.signatures[0].label
    at = place(BROKEN, "Relu(", 4)
    found = await editor.text_document_completion_async(types.CompletionParams(document, at))
    relu = next(i for i in found.items if i.label == "Relu")
    assert relu.text_edit.range == types.Range(place(BROKEN, "Relu(", 0), place(BROKEN, "Relu(", 4))
    resolved = await editor.completion_item_resolve_async(relu)
    assert "ONNX `Relu`" in resolved.documentation.value


@pytest.mark.asyncio(loop_scope="function")
async def test_renaming(editor: LanguageClient):
    document = opened(editor, BROKEN)
    at = place(BROKEN, "%ab, %y")
    prepared = await editor.text_document_prepare_rename_async(types.PrepareRenameParams(document, at))
    assert prepared.placeholder == "ab"
    edit = await editor.text_document_rename_async(types.RenameParams(document, at, "renamed"))
    assert applied(BROKEN, of(edit)) == BROKEN.replace("%ab", "%renamed")
    with pytest.raises(JsonRpcException, match="`%c` is taken in `@f`"):
        await editor.text_document_rename_async(types.RenameParams(document, at, "%c"))
    keyword = place(BROKEN, "return")
    nothing = await editor.text_document_prepare_rename_async(types.PrepareRenameParams(document, keyword))
    assert nothing is None


@pytest.mark.asyncio(loop_scope="function")
async def test_formatting(editor: LanguageClient):
    text = "func  @f(%x) {\n// é😀\n      %y=Relu( %x ) // é\n  return %y\n}\n"
    document, options = opened(editor, text), types.FormattingOptions(2, insert_spaces=True)
    edits = await editor.text_document_formatting_async(types.DocumentFormattingParams(document, options))
    assert applied(text, edits) == "func @f(%x) {\n  // é😀\n  %y = Relu(%x) // é\n  return %y\n}\n"
    line = types.Range(types.Position(2, 0), types.Position(2, 5))
    params = types.DocumentRangeFormattingParams(document, line, options)
    edits = await editor.text_document_range_formatting_async(params)
    assert applied(text, edits) == text.replace("      %y=Relu( %x )", "  %y = Relu(%x)")
    params = types.DocumentOnTypeFormattingParams(document, types.Position(3, 0), "\n", options)
    edits = await editor.text_document_on_type_formatting_async(params)
    assert not edits  # `return` stands on this line: it was no line end that was typed here


@pytest.mark.asyncio(loop_scope="function")
async def test_repairs_name_what_they_repair(editor: LanguageClient):
    document = opened(editor, BROKEN)
    await editor.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    wrong = [d for d in editor.diagnostics[document.uri] if str(d.code) == "DIR401"]
    found = await actions_at(editor, document, place(BROKEN, "Add"), wrong, only=["quickfix"])
    send = next(a for a in found if a.title == "send `%y` to device 1")
    assert send.kind == "quickfix"
    assert send.is_preferred
    assert [str(d.code) for d in send.diagnostics] == ["DIR401"]
    text = applied(BROKEN, of(send.edit))
    assert "  %y.1 = Send[device = 1](%y)\n  %c = Add(%ab, %y.1)\n" in text


@pytest.mark.asyncio(loop_scope="function")
async def test_gains_and_new_files(editor: LanguageClient):
    document = opened(editor, PIPELINE)
    await editor.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    at = place(PIPELINE, "%ar_2: D2")
    moves, deadline = [], time.monotonic() + PATIENCE_S
    while not moves and time.monotonic() < deadline:  # the simulation comes when it comes
        await asyncio.sleep(0.02)
        found = await actions_at(editor, document, at)
        moves = [a for a in found if a.title.startswith("move")]
    assert moves[0].title.startswith("move `%p_1` above this `Send`: 1.")
    assert found[0] is moves[0], "what helps stands first"
    assert (moves[0].kind, moves[0].is_preferred) == (types.CodeActionKind.QuickFix, True)
    text = applied(PIPELINE, of(moves[0].edit))
    assert text.index("%p_1: D2 =") < text.index("%ar_2: D2 =")
    found = await actions_at(editor, document, place(PIPELINE, "func @mlpPP"))
    offer = next(a for a in found if "`dce`" in a.title)
    (editor.folder / "program.dce.dir").write_text("mine\n")
    made = await editor.code_action_resolve_async(offer)
    create, change = made.edit.document_changes
    assert create.uri.endswith("program.dce.2.dir")  # no file is written over
    assert "func @mlpPP(" in change.edits[0].new_text
    offer = next(a for a in found if "`grad`" in a.title)
    with pytest.raises(JsonRpcException, match="`grad`: "):
        await editor.code_action_resolve_async(offer)


@pytest.mark.asyncio(loop_scope="function")
async def test_files_that_are_named_are_links(editor: LanguageClient):
    text = "// see other.dir and https://example.org/x, not missing.dir\nfunc @f(%x) {\n  return %x\n}\n"
    document = opened(editor, text)
    found = await editor.text_document_document_link_async(types.DocumentLinkParams(document))
    assert [link.target.rsplit("/", 1)[-1] for link in found] == ["other.dir", "x"]


@pytest.mark.asyncio(loop_scope="function")
async def test_vs_code_gets_what_it_can_take(code: LanguageClient):
    document = opened(code, BROKEN)
    edit = await code.text_document_rename_async(types.RenameParams(document, place(BROKEN, "%ab, %y"), "renamed"))
    (change,) = edit.document_changes
    assert change.text_document.version == 1
    assert applied(BROKEN, change.edits) == BROKEN.replace("%ab", "%renamed")
    at = place(BROKEN, "Relu(", 0)
    found = await code.text_document_completion_async(types.CompletionParams(document, at))
    send = next(i for i in found.items if i.label == "Send")
    assert send.insert_text_format is types.InsertTextFormat.Snippet
    assert send.text_edit.new_text == "Send[device = ${1}](${2:%x})"
    assert "send" not in [i.label for i in found.items]
    at = place(BROKEN, "Add(%ab, %y", len("Add(%ab, %y"))
    (y,) = (await code.text_document_completion_async(types.CompletionParams(document, at))).items
    assert (y.label, y.text_edit.new_text) == ("%y", "%y.1")
    accepted = applied(BROKEN, [y.text_edit, *y.additional_text_edits])
    assert accepted == BROKEN.replace("  %c = Add(%ab, %y)", "  %y.1 = Send[device = 1](%y)\n  %c = Add(%ab, %y.1)")
    at = place(BROKEN, "Gemm(%ab,", len("Gemm(%ab,"))
    shown = await code.text_document_signature_help_async(types.SignatureHelpParams(document, at))
    (signature,) = shown.signatures
    start, end = signature.parameters[shown.active_parameter].label
    assert signature.label[start:end].startswith("b: Tensor[Float32, ")
    symbols = await code.text_document_document_symbol_async(types.DocumentSymbolParams(document))
    (section,) = symbols[0].children  # which the comment heads
    assert section.name == "café 😀"
    assert [child.name for child in section.children] == ["%ab", "%c"]  # the broken statement is no op
