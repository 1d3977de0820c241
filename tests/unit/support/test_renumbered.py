"""librdkafka's reuse of sequences is told from a broker that lost some."""

from tests.failover.load.transactional_clients import has_renumbered

RENUMBERED = (
    "%7|1|ADVBASE|x| [thrd:1]: t [0] advancing epoch base msgid to 41 due to 40 message(s) in aborted transaction\n"
)
BEGUN = "%7|1|TXNSTATE|x| [thrd:main]: Transaction state change Ready -> InTransaction\n"
ENDED = (
    "%0|1|FATAL|x| [thrd:2]: Fatal error: Broker: Broker received an out of order sequence number: ProduceRequest for "
    "t [0] with 50 message(s) failed due to sequence desynchronization with broker 3 (PID{Id:0,Epoch:0}, base seq 6, "
    "idemp state change 2989ms ago, last partition error _TRANSPORT (actions Refresh,MsgPossiblyPersisted, base seq "
    "6..45, base msgid 7, 2447ms ago)\n"
)


def test_a_refused_transaction_behind_one_whose_sequences_were_taken_back() -> None:
    assert has_renumbered(BEGUN + RENUMBERED + BEGUN + ENDED)
    assert has_renumbered(RENUMBERED + BEGUN + RENUMBERED + BEGUN + ENDED)


def test_what_else_can_have_ended_it() -> None:
    assert not has_renumbered("")
    assert not has_renumbered(BEGUN + ENDED)
    assert not has_renumbered(RENUMBERED + BEGUN), "it did not end"
    assert not has_renumbered(RENUMBERED + BEGUN + BEGUN + ENDED), "a transaction was well meanwhile"
    assert not has_renumbered(RENUMBERED.replace("t [0]", "t [1]") + BEGUN + ENDED), "another partition"
    assert not has_renumbered(RENUMBERED + BEGUN + ENDED.replace("MsgPossiblyPersisted", "MsgNotPersisted"))
