"""The transactional ids of one partition of `__transaction_state`: who produces under each, and what is open there."""
