//! The moments at which a server is killed, and which of them its store says that it was killed in.

use std::path::Path;

use runwire_frame::{Data, Frame, RunStatus};
use runwire_store::{RunRecord, Store, StoreOptions};

/// Each state of a run's state machine, by how a run came into it, and the two requests that change most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// `queued`, because its lane is full.
    InLane,
    /// `queued`, behind another run of its session.
    BehindItsSession,
    /// `running`, for the first time.
    Running,
    /// `suspended`.
    Suspended,
    /// `running`, and it was `suspended` a few frames before.
    JustResumed,
    /// `retrying`: in the pause between two attempts.
    Retrying,
    /// `running`, in a further attempt.
    RunningAgain,
    /// `cancelling`, under a driver that ignores it.
    Cancelling,
    /// `running`; its agent has said everything and that it is done, and the log does not say so yet.
    AttemptsEnd,
    /// A request that creates a run has no answer.
    DuringCreate,
    /// A request that answers a suspended run has none.
    DuringAnswer,
}

pub const MOMENTS: [Moment; 11] = [
    Moment::InLane,
    Moment::BehindItsSession,
    Moment::Running,
    Moment::Suspended,
    Moment::JustResumed,
    Moment::Retrying,
    Moment::RunningAgain,
    Moment::Cancelling,
    Moment::AttemptsEnd,
    Moment::DuringCreate,
    Moment::DuringAnswer,
];

/// How few frames behind `resume` count as just resumed. Seven come at once.
const JUST: usize = 12;

/// A run that had not ended when its server died.
pub struct LeftBehind {
    pub record: RunRecord,
    /// Its frames, byte for byte.
    pub bodies: Vec<String>,
}

impl LeftBehind {
    /// All that a store has, in the order of their creation. Nobody may have it open.
    pub async fn all(folder: &Path) -> Vec<LeftBehind> {
        let store = Store::open(&folder.join("runwire.db"), StoreOptions::default()).unwrap();
        let mut left = Vec::new();
        for record in store.unfinished_runs().await.unwrap() {
            let mut bodies = Vec::new();
            while bodies.len() < record.head as usize {
                let page = store.read(&record.run_id, bodies.len() as u64, 1000).await.unwrap();
                assert!(!page.is_empty(), "{} has {} of {} frames", record.run_id, bodies.len(), record.head);
                bodies.extend(page.iter().map(|entry| String::from_utf8(entry.body().to_vec()).unwrap()));
            }
            left.push(LeftBehind { record, bodies });
        }
        store.close();
        left
    }

    /// What the log says that it was doing. `None` while it is between two of them.
    pub fn moment(&self, all: &[LeftBehind]) -> Option<Moment> {
        let RunRecord { run_id, agent_id, session_id, lane, attempt, .. } = &self.record;
        let before = all.iter().take_while(|other| other.record.run_id != *run_id);
        match RunStatus::from_wire(&self.record.status)? {
            RunStatus::Queued => {
                let busy =
                    |other: &LeftBehind| other.record.agent_id == *agent_id && other.record.session_id == *session_id;
                let occupies = |other: &LeftBehind| {
                    other.record.lane == *lane && other.record.status == RunStatus::Running.as_str()
                };
                match () {
                    () if self.record.head > 0 => None,
                    () if before.clone().any(busy) => Some(Moment::BehindItsSession),
                    () if lane == "narrow" && all.iter().any(occupies) => Some(Moment::InLane),
                    () => None,
                }
            }
            RunStatus::Running if *attempt > 1 => Some(Moment::RunningAgain),
            RunStatus::Running => Some(self.first_attempt()),
            RunStatus::Suspended => Some(Moment::Suspended),
            RunStatus::Retrying => Some(Moment::Retrying),
            RunStatus::Cancelling => Some(Moment::Cancelling),
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => None,
        }
    }

    fn first_attempt(&self) -> Moment {
        let frames: Vec<Frame> = self.bodies.iter().map(|body| Frame::decode(body.as_bytes()).unwrap()).collect();
        let resumed = frames.iter().rev().position(|frame| matches!(frame.data, Data::Resume(_)));
        if resumed.is_some_and(|since| since <= JUST) {
            return Moment::JustResumed;
        }
        // Of this agent nothing comes behind its message but the end of the attempt.
        let last_word = matches!(frames.last().map(|frame| &frame.data), Some(Data::SegmentEnd(_)));
        if self.record.agent_id == "lingering" && last_word {
            return Moment::AttemptsEnd;
        }
        Moment::Running
    }
}
