"""The controller: decides which broker leads what, and tells the brokers."""
