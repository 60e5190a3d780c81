"""The debug adapter: the Debug Adapter Protocol around `distir.ide.stepping`. Holds no rule of the language."""
