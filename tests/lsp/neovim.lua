-- What a person does in Neovim: open a program, make a mistake, see it, mend it, rename, format, write.
-- Runs in versions from 0.7 on. Arguments come in as globals: PYTHON, PATHS, PROGRAM.

local failed = {}
local function check(condition, what)
  if not condition then
    table.insert(failed, what)
  end
end

local function finish()
  for _, what in ipairs(failed) do
    io.stderr:write("failed: " .. what .. "\n")
  end
  vim.cmd(#failed == 0 and "qall!" or "cquit 1")
end

local function main()
  vim.cmd("edit " .. PROGRAM)
  vim.bo.filetype = "distir"
  local config = {
    name = "distir",
    cmd = { PYTHON, "-m", "distir_lsp" },
    cmd_env = { PYTHONPATH = PATHS },
    root_dir = vim.fn.fnamemodify(PROGRAM, ":h"),
  }
  local client
  if vim.lsp.start then
    client = vim.lsp.start(config)
  else
    client = vim.lsp.start_client(config)
    vim.lsp.buf_attach_client(0, client)
  end
  check(client ~= nil, "the server starts")
  check(vim.wait(120000, function() return vim.lsp.buf_is_attached(0, client) end), "the server is attached")
  check(vim.wait(120000, function() return vim.lsp.get_client_by_id(client).initialized end), "the server answers")

  local function text() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") end
  local function codes()
    local found = {}
    for _, d in ipairs(vim.diagnostic.get(0)) do found[tostring(d.code or d.user_data.lsp.code)] = true end
    return found
  end
  local function go_to(pattern)
    vim.api.nvim_win_set_cursor(0, { 1, 0 })
    return vim.fn.search(pattern, "cW") > 0
  end
  local function position() return vim.lsp.util.make_position_params(0, "utf-16") end

  -- a mistake is seen, and seen no more once it is undone
  check(go_to([[%a = Relu]]), "the program is open")
  vim.cmd([[substitute/Relu/Reul/]])
  check(vim.wait(120000, function() return codes()["DIR205"] end, 20), "an unknown op is reported")
  vim.cmd("undo")
  check(vim.wait(120000, function() return not codes()["DIR205"] end, 20), "it is reported no more")

  -- hover and definition
  go_to([[Relu(%h)]])
  vim.fn.search("%h", "cW")
  local hover = vim.lsp.buf_request_sync(0, "textDocument/hover", position(), 120000)
  check(hover and hover[client] and hover[client].result, "hover says something")
  local defined = vim.lsp.buf_request_sync(0, "textDocument/definition", position(), 120000)
  local place = defined and defined[client] and defined[client].result
  place = place and (place[1] or place)
  check(place and place.range.start.line == vim.fn.search("%h = ", "bnW") - 1, "the definition is found")

  -- completion: a value of another device comes with its Send
  local before = vim.api.nvim_buf_get_lines(0, 0, -1, false)
  local row = vim.fn.search("return %a", "nw") - 1
  local half = "  %sum = Add(%a, %there"
  vim.api.nvim_buf_set_lines(0, row, row, false, { "  %there = Send[device = 2](%a)", half })
  vim.api.nvim_win_set_cursor(0, { row + 2, #half })
  local asked = position()
  asked.position.character = #half
  local offered = vim.lsp.buf_request_sync(0, "textDocument/completion", asked, 120000)
  offered = offered and offered[client] and offered[client].result
  local item = offered and offered.items[1]
  check(item and item.label == "%there" and #(item.additionalTextEdits or {}) == 1, "a value of another device is offered")
  if item and item.additionalTextEdits then
    vim.lsp.util.apply_text_edits({ item.textEdit, item.additionalTextEdits[1] }, 0, "utf-16")
    check(text():find("  %there.1 = Send[device = 1](%there)\n  %sum = Add(%a, %there.1", 1, true), "its Send is written")
  end
  vim.api.nvim_buf_set_lines(0, 0, -1, false, before)

  -- renaming
  go_to([[Relu(%h)]])
  vim.fn.search("%h", "cW")
  vim.lsp.buf.rename("hidden")
  check(vim.wait(120000, function() return text():find("Relu%(%%hidden%)") ~= nil end, 20), "the value is renamed")
  check(text():find("%%hidden = Gemm") ~= nil, "its definition is renamed, too")

  -- formatting
  go_to([[return %a]])
  vim.cmd([[substitute/  return %a/      return    %a/]])
  if vim.lsp.buf.format then
    vim.lsp.buf.format({ async = false, timeout_ms = 120000 })
  else
    vim.lsp.buf.formatting_sync(nil, 120000)
  end
  check(text():find("\n  return %%a\n") ~= nil, "the text is formatted")
  vim.cmd("write!")
end

local done, problem = pcall(main)
if not done then
  table.insert(failed, tostring(problem))
end
finish()
