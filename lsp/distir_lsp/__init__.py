"""The language server: protocol only. What is said is in `distir.ide`; here it is put into messages."""
