//! Whose turn it is: lanes with limits, and sessions in which one run of an agent is executed at a time.
//!
//! A run first waits for its session's turn, strictly in order, and then for a slot of its lane, where the sessions that
//! wait take turns. What waits is an id and the names of its place: no task, no input. Who is executed has a [`Turn`],
//! and dropping that lets the next one begin.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

/// The lane that is always there.
pub const DEFAULT_LANE: &str = "default";

/// How many runs a lane executes and lets wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneOptions {
    /// The most runs that are executed at once; `None` for no limit.
    pub limit: Option<usize>,
    /// The most runs that may wait, for the lane or for their session; beyond them none is created. `None` for no limit.
    pub max_queued: Option<usize>,
}

/// What a run does whose session has one of the same agent that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// It waits until those before it have ended.
    #[default]
    Queue,
    /// It is not created.
    Refuse,
    /// Those before it are cancelled, also one that waits for an answer; then it is executed.
    Supersede,
    /// It is executed beside them.
    Parallel,
}

impl Concurrency {
    /// Its name, as in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Concurrency::Queue => "queue",
            Concurrency::Refuse => "refuse",
            Concurrency::Supersede => "supersede",
            Concurrency::Parallel => "parallel",
        }
    }
}

/// The runs of one agent in one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    agent_id: Arc<str>,
    session_id: Arc<str>,
}

impl Key {
    pub(crate) fn new(agent_id: &str, session_id: &str) -> Key {
        Key { agent_id: agent_id.into(), session_id: session_id.into() }
    }
}

/// What a run that wants to be executed came to.
#[derive(Debug)]
pub(crate) enum Entered {
    /// It is its turn.
    Now(Turn),
    /// It waits. Those of its session that were before it.
    Queued { ahead: Vec<Arc<str>> },
}

/// Why a run may not even wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotEntered {
    /// Its session has this run, and the agent refuses a second.
    Busy { run_id: Arc<str> },
    /// So many runs of the lane wait already.
    Full { max_queued: usize },
}

/// Called with each run whose turn comes after it has waited.
type Begin = Box<dyn Fn(Arc<str>, Turn) + Send + Sync>;

/// All lanes, and the sessions that have a run. Its lock is held for a few look-ups, never across an await.
pub(crate) struct Turns {
    state: Mutex<State>,
    begin: Begin,
    /// Wakes who waits for a run that has ended to give its session's turn back.
    given_back: Notify,
}

#[derive(Default)]
struct State {
    /// The configured ones, and those that stored runs name.
    lanes: HashMap<Arc<str>, Lane>,
    sessions: HashMap<Key, Session>,
    /// The runs that wait, and those whose turn has come and that nobody has in hand yet.
    waiting: HashSet<Arc<str>>,
    /// The server goes: nobody's turn comes any more.
    closed: bool,
}

#[derive(Default)]
struct Lane {
    options: LaneOptions,
    executed: usize,
    /// How many runs wait, for this lane or first for their session.
    queued: usize,
    /// Exchanges of runs that have begun; they go before new runs.
    ahead: VecDeque<oneshot::Sender<Slot>>,
    /// The sessions that wait here, in the order of their turns.
    rotation: VecDeque<Key>,
    /// The runs of each.
    runs: HashMap<Key, VecDeque<Arc<str>>>,
}

/// A session in which one run of an agent is executed at a time, while it has one.
struct Session {
    /// Executed, between two attempts, or waiting for its lane.
    front: Arc<str>,
    /// How many [`Place`]s the front run has: an exchange that goes on may meet the one before it on its way out.
    places: usize,
    /// Those behind it, with their lanes.
    behind: VecDeque<(Arc<str>, Arc<str>)>,
}

/// A slot of a lane. Given back when dropped.
pub(crate) struct Slot {
    turns: Arc<Turns>,
    lane: Arc<str>,
}

/// A session's turn. The next run of the session has it when this is dropped.
pub(crate) struct Place {
    turns: Arc<Turns>,
    key: Key,
    run_id: Arc<str>,
}

/// The right to execute a run.
#[derive(Default)]
pub(crate) struct Turn {
    /// `None` while the run waits for its next attempt, and until a run that goes on has its slot.
    pub slot: Option<Slot>,
    /// `None` where the agent executes several runs of a session at once.
    pub place: Option<Place>,
}

impl Turn {
    /// Gives it back to nobody: from here on nobody's turn comes any more.
    pub(crate) fn close(self) {
        if let Some(slot) = &self.slot {
            slot.turns.close();
        }
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("slot", &self.slot.is_some()).field("place", &self.place.is_some()).finish()
    }
}

/// What has to be done once the lock is released.
enum Due {
    Run { run_id: Arc<str>, key: Key, lane: Arc<str> },
    Ahead { waiter: oneshot::Sender<Slot>, lane: Arc<str> },
}

impl Turns {
    /// These lanes, and [`DEFAULT_LANE`]. `begin` is called without the lock.
    pub(crate) fn new(
        lanes: &BTreeMap<String, LaneOptions>,
        begin: impl Fn(Arc<str>, Turn) + Send + Sync + 'static,
    ) -> Arc<Turns> {
        let lanes = lanes.iter().map(|(name, options)| (name.as_str(), *options));
        let lanes = [(DEFAULT_LANE, LaneOptions::default())].into_iter().chain(lanes);
        let lanes = lanes.map(|(name, options)| (Arc::from(name), Lane { options, ..Lane::default() })).collect();
        let state = Mutex::new(State { lanes, ..State::default() });
        Arc::new(Turns { state, begin: Box::new(begin), given_back: Notify::new() })
    }

    /// A run wants to be executed, or to wait for it. One that waits already goes on waiting.
    pub(crate) fn enter(
        self: &Arc<Self>,
        run_id: &str,
        key: &Key,
        lane: &str,
        concurrency: Concurrency,
    ) -> Result<Entered, NotEntered> {
        self.enter_within(run_id, key, lane, concurrency, |options| options.max_queued)
    }

    /// The same for a run that is in the store and has not begun: it waits however many do.
    pub(crate) fn enter_stored(
        self: &Arc<Self>,
        run_id: &str,
        key: &Key,
        lane: &str,
        concurrency: Concurrency,
    ) -> Result<Entered, NotEntered> {
        self.enter_within(run_id, key, lane, concurrency, |_| None)
    }

    fn enter_within(
        self: &Arc<Self>,
        run_id: &str,
        key: &Key,
        lane: &str,
        concurrency: Concurrency,
        max_queued: impl Fn(&LaneOptions) -> Option<usize>,
    ) -> Result<Entered, NotEntered> {
        let mut state = self.lock();
        let state = &mut *state;
        let run_id: Arc<str> = run_id.into();
        if state.waiting.contains(&run_id) {
            return Ok(Entered::Queued { ahead: Vec::new() });
        }
        let name: Arc<str> = lane.into();
        let lane = state.lanes.entry(name.clone()).or_default();
        let full = |lane: &Lane| max_queued(&lane.options).filter(|most| lane.queued >= *most);
        let alone = concurrency != Concurrency::Parallel;
        if alone && let Some(session) = state.sessions.get_mut(key) {
            if concurrency == Concurrency::Refuse {
                return Err(NotEntered::Busy { run_id: session.front.clone() });
            }
            if let Some(max_queued) = full(lane) {
                return Err(NotEntered::Full { max_queued });
            }
            let behind = session.behind.iter().map(|(run_id, _)| run_id.clone());
            let ahead = std::iter::once(session.front.clone()).chain(behind).collect();
            session.behind.push_back((run_id.clone(), name));
            lane.queued += 1;
            state.waiting.insert(run_id);
            return Ok(Entered::Queued { ahead });
        }
        let now = lane.is_free();
        if !now && let Some(max_queued) = full(lane) {
            return Err(NotEntered::Full { max_queued });
        }
        if alone {
            let front = Session { front: run_id.clone(), places: usize::from(now), behind: VecDeque::new() };
            state.sessions.insert(key.clone(), front);
        }
        if now {
            lane.executed += 1;
            let place = alone.then(|| Place { turns: self.clone(), key: key.clone(), run_id });
            let slot = Some(Slot { turns: self.clone(), lane: name });
            return Ok(Entered::Now(Turn { slot, place }));
        }
        lane.queued += 1;
        lane.wait(key, run_id.clone());
        state.waiting.insert(run_id);
        Ok(Entered::Queued { ahead: Vec::new() })
    }

    /// The session's turn for a run that has begun before and goes on; it has no slot yet. Nobody is waited for: what goes
    /// on is older than all that waits.
    pub(crate) fn go_on(self: &Arc<Self>, run_id: &str, key: &Key, concurrency: Concurrency) -> Turn {
        if concurrency == Concurrency::Parallel {
            return Turn::default();
        }
        let mut state = self.lock();
        let front: Arc<str> = run_id.into();
        let session = state.sessions.entry(key.clone()).or_insert_with(|| Session {
            front: front.clone(),
            places: 0,
            behind: VecDeque::new(),
        });
        if session.front != front {
            return Turn::default();
        }
        session.places += 1;
        Turn { slot: None, place: Some(Place { turns: self.clone(), key: key.clone(), run_id: front }) }
    }

    /// The session's turn for a run that another run starts: it has it now, or not at all, because it could wait for the one that
    /// waits for it. Gives the run that has the turn instead.
    pub(crate) fn place_of_child(
        self: &Arc<Self>,
        run_id: &str,
        key: &Key,
        concurrency: Concurrency,
    ) -> Result<Turn, Arc<str>> {
        if concurrency == Concurrency::Parallel {
            return Ok(Turn::default());
        }
        let mut state = self.lock();
        if let Some(session) = state.sessions.get(key) {
            return Err(session.front.clone());
        }
        let front: Arc<str> = run_id.into();
        state.sessions.insert(key.clone(), Session { front: front.clone(), places: 1, behind: VecDeque::new() });
        Ok(Turn { slot: None, place: Some(Place { turns: self.clone(), key: key.clone(), run_id: front }) })
    }

    /// Resolves when a session's turn is given back.
    pub(crate) fn given_back(&self) -> Notified<'_> {
        self.given_back.notified()
    }

    /// A slot of the lane, now or as soon as there is one, ahead of runs that have not begun. Whoever does not want it any
    /// more drops the receiver.
    pub(crate) fn slot(self: &Arc<Self>, lane: &str) -> Result<Slot, oneshot::Receiver<Slot>> {
        let mut state = self.lock();
        let name: Arc<str> = lane.into();
        let lane = state.lanes.entry(name.clone()).or_default();
        if lane.is_free() {
            lane.executed += 1;
            return Ok(Slot { turns: self.clone(), lane: name });
        }
        let (waiter, receiver) = oneshot::channel();
        lane.ahead.push_back(waiter);
        Err(receiver)
    }

    /// Takes a run out that waits, because it was stopped or never came to be. Says whether it was there.
    pub(crate) fn leave(self: &Arc<Self>, run_id: &str, key: &Key) -> bool {
        let mut due = Vec::new();
        let left = {
            let mut state = self.lock();
            let state = &mut *state;
            let queued_in = state.take_out(run_id, key);
            if let Some(lane) = &queued_in {
                state.waiting.remove(run_id);
                if let Some(lane) = state.lanes.get_mut(lane) {
                    lane.queued -= 1;
                }
                let was_front = state.sessions.get(key).is_some_and(|session| &*session.front == run_id);
                if was_front {
                    state.next_of_session(key, &mut due);
                }
            }
            queued_in.is_some()
        };
        self.do_due(due);
        left
    }

    /// Somebody has the run in hand whose turn has come.
    pub(crate) fn begun(&self, run_id: &str) {
        self.lock().waiting.remove(run_id);
    }

    /// Whether the run waits here.
    pub(crate) fn waits(&self, run_id: &str) -> bool {
        self.lock().waiting.contains(run_id)
    }

    /// How many runs wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().lanes.values().map(|lane| lane.queued).sum()
    }

    /// From here on nobody's turn comes: the server goes, and what waits is left to the next.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    fn give_back_slot(self: &Arc<Self>, lane: &Arc<str>) {
        let mut due = Vec::new();
        {
            let mut state = self.lock();
            if let Some(lane) = state.lanes.get_mut(lane) {
                lane.executed -= 1;
            }
            state.next_of_lane(lane, &mut due);
        }
        self.do_due(due);
    }

    fn give_back_place(self: &Arc<Self>, key: &Key, run_id: &Arc<str>) {
        let mut due = Vec::new();
        {
            let mut state = self.lock();
            let Some(session) = state.sessions.get_mut(key).filter(|session| session.front == *run_id) else { return };
            session.places -= 1;
            if session.places == 0 {
                state.next_of_session(key, &mut due);
            }
        }
        self.given_back.notify_waiters();
        self.do_due(due);
    }

    fn do_due(self: &Arc<Self>, due: Vec<Due>) {
        for due in due {
            match due {
                Due::Run { run_id, key, lane } => {
                    let alone = self.lock().sessions.get(&key).is_some_and(|session| session.front == run_id);
                    let place = alone.then(|| Place { turns: self.clone(), key, run_id: run_id.clone() });
                    let slot = Some(Slot { turns: self.clone(), lane });
                    (self.begin)(run_id, Turn { slot, place });
                }
                // Whoever has gone since gives it back by that.
                Due::Ahead { waiter, lane } => drop(waiter.send(Slot { turns: self.clone(), lane })),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives the lane's free slots to those that wait for them.
    fn next_of_lane(&mut self, name: &Arc<str>, due: &mut Vec<Due>) {
        let closed = self.closed;
        let Some(lane) = self.lanes.get_mut(name) else { return };
        while lane.is_free() {
            lane.ahead.retain(|waiter| !waiter.is_closed());
            if let Some(waiter) = lane.ahead.pop_front() {
                due.push(Due::Ahead { waiter, lane: name.clone() });
            } else if closed {
                // What has begun may end while the server goes; nothing else begins.
                return;
            } else if let Some((key, run_id)) = lane.next() {
                lane.queued -= 1;
                if let Some(session) = self.sessions.get_mut(&key).filter(|session| session.front == run_id) {
                    session.places += 1;
                }
                due.push(Due::Run { run_id, key, lane: name.clone() });
            } else {
                return;
            }
            lane.executed += 1;
        }
    }

    /// The session's front run is gone: the next one goes to its lane.
    fn next_of_session(&mut self, key: &Key, due: &mut Vec<Due>) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some((front, lane)) = session.behind.pop_front() else {
            self.sessions.remove(key);
            return;
        };
        session.front = front.clone();
        session.places = 0;
        self.lanes.entry(lane.clone()).or_default().wait(key, front);
        self.next_of_lane(&lane, due);
    }

    /// Takes a run out of the queue that it is in, and names its lane.
    fn take_out(&mut self, run_id: &str, key: &Key) -> Option<Arc<str>> {
        if let Some(session) = self.sessions.get_mut(key)
            && let Some(at) = session.behind.iter().position(|(behind, _)| &**behind == run_id)
        {
            return session.behind.remove(at).map(|(_, lane)| lane);
        }
        for (name, lane) in &mut self.lanes {
            let Some(runs) = lane.runs.get_mut(key) else { continue };
            let Some(at) = runs.iter().position(|waiting| &**waiting == run_id) else { continue };
            runs.remove(at);
            if runs.is_empty() {
                lane.runs.remove(key);
                lane.rotation.retain(|waiting| waiting != key);
            }
            return Some(name.clone());
        }
        None
    }
}

impl Lane {
    fn is_free(&self) -> bool {
        self.options.limit.is_none_or(|limit| self.executed < limit)
    }

    fn wait(&mut self, key: &Key, run_id: Arc<str>) {
        let runs = self.runs.entry(key.clone()).or_default();
        if runs.is_empty() {
            self.rotation.push_back(key.clone());
        }
        runs.push_back(run_id);
    }

    /// The next run in the next session's turn.
    fn next(&mut self) -> Option<(Key, Arc<str>)> {
        let key = self.rotation.pop_front()?;
        let runs = self.runs.get_mut(&key)?;
        let run_id = runs.pop_front()?;
        if runs.is_empty() {
            self.runs.remove(&key);
        } else {
            self.rotation.push_back(key.clone());
        }
        Some((key, run_id))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let turns = self.turns.clone();
        turns.give_back_slot(&self.lane);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let turns = self.turns.clone();
        turns.give_back_place(&self.key, &self.run_id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Turns whose runs begin in the order that is kept here.
    struct Bed {
        turns: Arc<Turns>,
        begun: Arc<Mutex<Vec<(String, Turn)>>>,
    }

    fn bed(limit: usize, max_queued: Option<usize>) -> Bed {
        let begun: Arc<Mutex<Vec<(String, Turn)>>> = Arc::default();
        let kept = begun.clone();
        let lanes = BTreeMap::from([(DEFAULT_LANE.to_owned(), LaneOptions { limit: Some(limit), max_queued })]);
        let turns = Turns::new(&lanes, move |run_id, turn| kept.lock().unwrap().push((run_id.to_string(), turn)));
        Bed { turns, begun }
    }

    impl Bed {
        /// Run `a1` is one of session `a`.
        fn enter(&self, run_id: &str, concurrency: Concurrency) -> Result<Entered, NotEntered> {
            self.turns.enter(run_id, &Key::new("agent", &run_id[..1]), DEFAULT_LANE, concurrency)
        }

        fn queue(&self, run_id: &str) -> Option<Turn> {
            match self.enter(run_id, Concurrency::Queue).unwrap() {
                Entered::Now(turn) => Some(turn),
                Entered::Queued { .. } => None,
            }
        }

        /// Ends what begun, one after the other, and gives the order.
        fn drain(&self) -> Vec<String> {
            let mut order = Vec::new();
            loop {
                let Some((run_id, turn)) = ({ self.begun.lock().unwrap().pop() }) else { return order };
                self.turns.begun(&run_id);
                order.push(run_id);
                drop(turn);
            }
        }
    }

    #[test]
    fn sessions_take_turns_and_the_runs_of_one_keep_their_order() {
        for concurrency in [Concurrency::Queue, Concurrency::Parallel] {
            let bed = bed(1, None);
            let Entered::Now(first) = bed.enter("x1", concurrency).unwrap() else { panic!("the lane is free") };
            for run_id in ["a1", "a2", "a3", "b1", "c1", "b2"] {
                assert!(matches!(bed.enter(run_id, concurrency).unwrap(), Entered::Queued { .. }));
            }
            assert_eq!(bed.turns.waiting(), 6);
            drop(first);
            assert_eq!(bed.drain(), ["a1", "b1", "c1", "a2", "b2", "a3"], "{concurrency:?}");
            assert_eq!(bed.turns.waiting(), 0);
            assert!(bed.turns.lock().sessions.is_empty(), "nothing is remembered of what is over");
        }
    }

    #[test]
    fn one_run_of_a_session_is_executed_at_a_time_whatever_the_lane_has_free() {
        let bed = bed(10, None);
        let first = bed.queue("a1").unwrap();
        assert!(bed.queue("a2").is_none());
        let other = bed.queue("b1").unwrap();
        drop(other);
        assert!(bed.begun.lock().unwrap().is_empty());
        drop(first);
        assert_eq!(bed.drain(), ["a2"]);
    }

    #[test]
    fn what_goes_on_has_its_slot_before_what_has_not_begun() {
        let bed = bed(1, None);
        let first = bed.queue("a1").unwrap();
        assert!(bed.queue("b1").is_none());
        let mut slot = bed.turns.slot(DEFAULT_LANE).err().unwrap();
        let given_up = bed.turns.slot(DEFAULT_LANE).err().unwrap();
        drop(given_up);
        drop(first);
        let slot = slot.try_recv().unwrap();
        assert!(bed.begun.lock().unwrap().is_empty());
        drop(slot);
        assert_eq!(bed.drain(), ["b1"]);
    }

    #[test]
    fn between_two_attempts_the_slot_is_free_and_the_session_is_not() {
        let bed = bed(1, None);
        let mut first = bed.queue("a1").unwrap();
        assert!(bed.queue("a2").is_none());
        assert!(bed.queue("b1").is_none());
        first.slot = None;
        assert_eq!(bed.drain(), ["b1"]);
        first.slot = Some(bed.turns.slot(DEFAULT_LANE).ok().unwrap());
        drop(first);
        assert_eq!(bed.drain(), ["a2"]);
    }

    #[test]
    fn what_leaves_the_queue_lets_those_behind_it_move_up() {
        let bed = bed(1, Some(3));
        let first = bed.queue("x1").unwrap();
        for run_id in ["a1", "a2", "a3"] {
            assert!(bed.queue(run_id).is_none());
        }
        assert_eq!(bed.enter("b1", Concurrency::Queue).unwrap_err(), NotEntered::Full { max_queued: 3 });
        let key = Key::new("agent", "a");
        assert!(bed.turns.leave("a1", &key) && bed.turns.leave("a3", &key) && !bed.turns.leave("a1", &key));
        assert!(bed.queue("b1").is_none(), "there is room again");
        drop(first);
        assert_eq!(bed.drain(), ["a2", "b1"]);
    }

    #[test]
    fn a_session_that_has_a_run_refuses_the_next_or_names_all_that_it_supersedes() {
        let bed = bed(1, None);
        let _first = bed.queue("a1").unwrap();
        assert!(bed.queue("a2").is_none());
        let refused = bed.enter("a3", Concurrency::Refuse).unwrap_err();
        assert_eq!(refused, NotEntered::Busy { run_id: "a1".into() });
        let Entered::Queued { ahead } = bed.enter("a4", Concurrency::Supersede).unwrap() else { panic!("it waits") };
        assert_eq!(ahead, ["a1".into(), "a2".into()]);
    }

    #[test]
    fn an_exchange_that_goes_on_shares_its_place_with_the_one_on_its_way_out() {
        let bed = bed(2, None);
        let first = bed.queue("a1").unwrap();
        assert!(bed.queue("a2").is_none());
        let next = bed.turns.go_on("a1", &Key::new("agent", "a"), Concurrency::Queue);
        drop(first);
        assert!(bed.begun.lock().unwrap().is_empty());
        drop(next);
        assert_eq!(bed.drain(), ["a2"]);
    }

    #[test]
    fn what_has_begun_has_its_slot_again_while_the_server_goes() {
        let bed = bed(1, None);
        let first = bed.queue("a1").unwrap();
        assert!(bed.queue("b1").is_none());
        let mut slot = bed.turns.slot(DEFAULT_LANE).err().unwrap();
        bed.turns.close();
        drop(first);
        drop(slot.try_recv().unwrap());
        assert!(bed.begun.lock().unwrap().is_empty());
    }

    #[test]
    fn nobodys_turn_comes_once_the_server_goes() {
        let bed = bed(1, None);
        let first = bed.queue("a1").unwrap();
        assert!(bed.queue("a2").is_none());
        assert!(bed.queue("b1").is_none());
        bed.turns.close();
        drop(first);
        assert!(bed.begun.lock().unwrap().is_empty());
    }
}
