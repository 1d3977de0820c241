from barnabas.client.partition_state import PartitionState
from barnabas.protocol.ids import TopicPartition


def test_what_the_caller_commits_counts_as_worked_on_between_what_was_and_what_was_handed_out() -> None:
    state = PartitionState(TopicPartition("t", 0))
    state.move_to(5)
    state.hand_out(next_offset=9, leader_epoch=3)
    state.commit(7, 2)
    assert (state.finished, state.finished_epoch) == (7, 2)
    for elsewhere in (6, 7, 10):
        state.commit(elsewhere, 1)
        assert (state.finished, state.finished_epoch) == (7, 2)
    state.finish(state.version)
    assert (state.finished, state.finished_epoch) == (9, 3)


def test_what_was_handed_out_before_a_move_is_not_worked_on_behind_it() -> None:
    state = PartitionState(TopicPartition("t", 0))
    state.move_to(5)
    state.hand_out(next_offset=9, leader_epoch=3)
    version = state.version
    state.move_to(2)
    state.finish(version)
    assert (state.finished, state.position, state.in_hand) == (2, 2, False)
