-- A program beside the sequential one that distir.toml names: see what is not proved, read hover, take the quick fix.
-- Arguments come in as globals: PYTHON, PATHS, PROGRAM.

local failed = {}
local function check(condition, what)
  if not condition then
    table.insert(failed, what)
  end
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

  local function marked()
    for _, d in ipairs(vim.diagnostic.get(0)) do
      if tostring(d.code or d.user_data.lsp.code) == "DIR801" then return d end
    end
  end

  -- the first statement that is not what is due is marked
  check(vim.wait(120000, function() return marked() ~= nil end, 20), "what is not proved is marked")
  local wrong = marked()
  local line = vim.api.nvim_buf_get_lines(0, wrong.lnum, wrong.lnum + 1, false)[1]
  check(line:find("Relu(%y_1)", 1, true), "it is the first wrong statement")

  -- hover says what its operand is
  vim.api.nvim_win_set_cursor(0, { wrong.lnum + 1, (line:find("%y_1", 1, true)) })
  local hover = vim.lsp.buf_request_sync(0, "textDocument/hover", vim.lsp.util.make_position_params(0, "utf-16"), 120000)
  local said = hover and hover[client] and hover[client].result and hover[client].result.contents.value or ""
  check(said:find("a partial sum of `%y` over devices 1, 2", 1, true), "hover says that it is a partial sum")

  -- the quick fix mends it
  local asked = vim.lsp.util.make_range_params(0, "utf-16")
  asked.context = { diagnostics = {}, only = { "quickfix" } }
  local offered = vim.lsp.buf_request_sync(0, "textDocument/codeAction", asked, 120000)
  local action
  for _, each in ipairs(offered and offered[client] and offered[client].result or {}) do
    if each.title == "use `%y_sum_1`, the sum" then action = each end
  end
  check(action ~= nil, "the sum that is there is offered")
  if action then
    vim.lsp.util.apply_workspace_edit(action.edit, "utf-16")
  end
  check(vim.wait(120000, function() return marked() == nil end, 20), "it is proved then")
  vim.cmd("write!")
end

local done, problem = pcall(main)
if not done then
  table.insert(failed, tostring(problem))
end
for _, what in ipairs(failed) do
  io.stderr:write("failed: " .. what .. "\n")
end
vim.cmd(#failed == 0 and "qall!" or "cquit 1")
