//! Which frame each event of a run's AG-UI view came from.

use crate::cursor::EventId;

/// The ids of a view's events by their number, from 0.
///
/// Nearly every frame gives one event, and then the next frame's is the next. So only where that is not so a row is kept:
/// where segments open and close, and not for each delta.
#[derive(Debug, Default)]
pub(crate) struct EventPlaces {
    rows: Vec<Row>,
    events: usize,
}

/// Events of which each after the first is the only one of the frame behind.
#[derive(Clone, Copy, Debug)]
struct Row {
    first: usize,
    id: EventId,
}

impl Row {
    fn id_of(self, event: usize) -> EventId {
        match event - self.first {
            0 => self.id,
            behind => EventId { seq: self.id.seq + behind as u64, n: 0 },
        }
    }
}

impl EventPlaces {
    /// Adds the next event.
    pub(crate) fn push(&mut self, id: EventId) {
        if self.rows.last().is_none_or(|row| row.id_of(self.events) != id) {
            self.rows.push(Row { first: self.events, id });
        }
        self.events += 1;
    }

    /// The id of an event; `None` for one that did not come.
    pub(crate) fn id_of(&self, event: usize) -> Option<EventId> {
        if event >= self.events {
            return None;
        }
        let behind = self.rows.partition_point(|row| row.first <= event);
        self.rows.get(behind.checked_sub(1)?).map(|row| row.id_of(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_by_its_number_however_many_its_frame_has() {
        let ids: Vec<EventId> =
            [(1, 0), (1, 1), (1, 2), (4, 0), (5, 0), (6, 0), (6, 1), (7, 0), (9, 1), (10, 0), (11, 0)]
                .map(|(seq, n)| EventId { seq, n })
                .into();
        let mut places = EventPlaces::default();
        ids.iter().for_each(|id| places.push(*id));
        let found: Vec<EventId> = (0..ids.len()).filter_map(|event| places.id_of(event)).collect();
        assert_eq!(found, ids);
        assert_eq!(places.id_of(ids.len()), None);
    }

    #[test]
    fn a_row_of_deltas_takes_no_memory() {
        let mut places = EventPlaces::default();
        (3..100_000).for_each(|seq| places.push(EventId { seq, n: 0 }));
        assert_eq!(places.rows.len(), 1);
        assert_eq!(places.id_of(50_000), Some(EventId { seq: 50_003, n: 0 }));
    }
}
