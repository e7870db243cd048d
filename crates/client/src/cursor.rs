//! How far a follower has read, and what the next frame is in relation to it (guarantees G1 and G2).

/// The position of a follower in a run's log.
#[derive(Debug)]
pub(crate) struct Cursor {
    at: u64,
    /// The cursor at which the last gap showed, until a frame is delivered.
    gap_at: Option<u64>,
}

/// What a received `seq` is, seen from the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The very next frame; the cursor is on it now.
    Next,
    /// Already delivered.
    Duplicate,
    /// Frames are missing before it; the cursor did not move.
    Gap {
        /// The `seq` that should have come.
        expected: u64,
        /// Whether the same frame was missing before, so that resuming did not help.
        again: bool,
    },
}

impl Cursor {
    pub(crate) fn new(after: u64) -> Cursor {
        Cursor { at: after, gap_at: None }
    }

    /// The `seq` of the last delivered frame; 0 when there is none.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn arrive(&mut self, seq: u64) -> Arrival {
        if seq <= self.at {
            return Arrival::Duplicate;
        }
        let expected = self.at + 1;
        if seq == expected {
            *self = Cursor::new(seq);
            return Arrival::Next;
        }
        let again = self.gap_at.replace(self.at) == Some(self.at);
        Arrival::Gap { expected, again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrival_is_next_duplicate_or_gap() {
        use Arrival::{Duplicate, Next};
        let gap = |expected, again| Arrival::Gap { expected, again };
        let tables: &[(u64, &[(u64, Arrival)])] = &[
            (0, &[(1, Next), (2, Next), (3, Next)]),
            (0, &[(2, gap(1, false))]),
            (7, &[(7, Duplicate), (1, Duplicate), (8, Next), (8, Duplicate)]),
            (7, &[(9, gap(8, false)), (9, gap(8, true))]),
            (7, &[(9, gap(8, false)), (12, gap(8, true))]),
            (7, &[(9, gap(8, false)), (7, Duplicate), (9, gap(8, true))]),
            (7, &[(9, gap(8, false)), (8, Next), (10, gap(9, false)), (9, Next)]),
        ];
        for (after, arrivals) in tables {
            let mut cursor = Cursor::new(*after);
            for (seq, arrival) in *arrivals {
                assert_eq!(cursor.arrive(*seq), *arrival, "after {after}: seq {seq} of {arrivals:?}");
            }
        }
    }

    #[test]
    fn a_gap_does_not_move_the_cursor() {
        let mut cursor = Cursor::new(3);
        cursor.arrive(6);
        assert_eq!(cursor.at(), 3);
    }

    #[test]
    fn a_cursor_at_the_greatest_seq_takes_nothing_more() {
        let mut cursor = Cursor::new(u64::MAX);
        assert_eq!(cursor.arrive(u64::MAX), Arrival::Duplicate);
    }
}
