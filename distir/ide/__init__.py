"""What an editor asks of a program, in its terms: offsets of a text, markdown, edits. Knows no protocol."""
