"""The language server: protocol only. What is said stands in `distir.ide`; here it is put into messages."""
