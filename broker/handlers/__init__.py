"""One module per API: its versions, behaviour and handler."""
