"""Editor features in terms of text offsets, Markdown and edits. Independent of any protocol."""
