//! The three ways to read a run, with the Rust client, and what they have to come to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use runwire_agui::StreamEnd;
use runwire_client::{AguiFollowed, Backoff, Disconnect, Followed, Server, Transport};
use runwire_frame::ErrorCode;
use tokio::task::JoinHandle;

use crate::program::PATIENCE;
use crate::serving::{Serving, http};

/// A way to read a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Sse,
    WebSocket,
    Agui,
}

pub const READERS: [Reader; 3] = [Reader::Sse, Reader::WebSocket, Reader::Agui];

/// Short, because whatever was cut can be had again at once; and long enough altogether for what takes a while.
pub const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(2), cap: Duration::from_millis(100), max_elapsed: Some(PATIENCE) };

/// What was seen of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bodies of frames, or ids and bodies of AG-UI events.
    pub all: Vec<String>,
    /// How often the connection was lost.
    pub losses: usize,
    /// Why, each time.
    pub why: Vec<String>,
    /// How often the first message of a WebSocket came too late, because the machine had so much to do: the client says it
    /// again.
    pub late: usize,
    /// How often the client's WebSocket library took an answer to the upgrade that came in crumbs for an attack. No
    /// connection was open then; the client tries again.
    pub suspected: usize,
}

impl Seen {
    fn lost(&mut self, reason: &Disconnect) {
        self.losses += 1;
        self.why.push(reason.to_string());
    }
}

/// Reads a run to its end, over as many connections as it takes. `idle` is the longest silence that is waited for.
pub async fn read(server: &Server, run_id: &str, reader: Reader, idle: Duration, count: &AtomicUsize) -> Seen {
    let mut seen = Seen::default();
    let transport = match reader {
        Reader::Sse => Transport::Sse,
        Reader::WebSocket => Transport::WebSocket,
        Reader::Agui => {
            let mut events = server.follow_agui(run_id).backoff(BACKOFF).idle(idle).recorded().start();
            while let Some(followed) = events.next().await {
                match followed.unwrap_or_else(|e| panic!("{reader:?} after {:?}: {e}", seen.all.last())) {
                    AguiFollowed::Events { id, received: Some(body), .. } => {
                        seen.all.push(format!("{id} {body}"));
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                    AguiFollowed::Events { received: None, .. } => panic!("the stream is recorded"),
                    AguiFollowed::Connected { .. } => {}
                    AguiFollowed::Disconnected { reason, .. } => seen.lost(&reason),
                    AguiFollowed::Ended(end) => assert!(matches!(end, StreamEnd::Completed { .. }), "{end:?}"),
                }
            }
            return seen;
        }
    };
    let mut frames = server.follow(run_id).transport(transport).backoff(BACKOFF).idle(idle).start();
    while let Some(followed) = frames.next().await {
        match followed.unwrap_or_else(|e| panic!("{reader:?} after {:?}: {e}", seen.all.last())) {
            Followed::Frame { body, .. } => {
                seen.all.push(String::from_utf8(body.to_vec()).unwrap());
                count.fetch_add(1, Ordering::SeqCst);
            }
            Followed::Connected { .. } => {}
            Followed::Disconnected { reason: Disconnect::Unreachable(why), .. } if why == "Attack attempt detected" => {
                seen.suspected += 1;
            }
            Followed::Disconnected {
                reason: Disconnect::ConnectionError { code: ErrorCode::AuthFailed, .. }, ..
            } => {
                seen.late += 1;
            }
            Followed::Disconnected { reason, .. } => seen.lost(&reason),
        }
    }
    seen
}

/// A reader in a task of its own.
pub struct Follower {
    pub reader: Reader,
    pub run_id: String,
    count: Arc<AtomicUsize>,
    reading: JoinHandle<Seen>,
}

impl Follower {
    pub fn of(server: Server, run_id: &str, reader: Reader, idle: Duration) -> Follower {
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, run) = (Arc::clone(&count), run_id.to_owned());
        let reading = tokio::spawn(async move { read(&server, &run, reader, idle, &counted).await });
        Follower { reader, run_id: run_id.to_owned(), count, reading }
    }

    /// How many frames, or events, it has by now.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Everything, once the run has ended.
    pub async fn until_it_ends(self) -> Seen {
        self.until(PATIENCE * 2).await
    }

    /// The same for a run that takes its time.
    pub async fn until(self, patience: Duration) -> Seen {
        let waited = tokio::time::timeout(patience, self.reading).await;
        waited.unwrap_or_else(|_| panic!("{:?} of {} gets to the end", self.reader, self.run_id)).unwrap()
    }
}

/// What each reader has to come to, read from the server itself once the run has ended, by nothing of the client.
pub struct Truth {
    pub frames: Vec<String>,
    pub events: Vec<String>,
}

impl Truth {
    pub async fn of(server: &Serving, run_id: &str) -> Truth {
        let frames = server.log_of(run_id).await;
        let stream = http(&server.at(&format!("/v2/runs/{run_id}/agui"))).await;
        let events = stream.split("\n\n").filter_map(|event| {
            let mut lines = event.lines();
            let id = lines.find_map(|line| line.strip_prefix("id: "))?;
            Some(format!("{id} {}", lines.find_map(|line| line.strip_prefix("data: "))?))
        });
        let truth = Truth { events: events.collect(), frames };
        assert!(truth.frames.last().unwrap().contains(r#""type":"run.end""#), "{run_id} has ended");
        assert!(truth.events.len() > 1, "{stream}");
        truth
    }

    pub fn for_reader(&self, reader: Reader) -> &[String] {
        match reader {
            Reader::Sse | Reader::WebSocket => &self.frames,
            Reader::Agui => &self.events,
        }
    }

    /// Nothing is missing, nothing twice, and not a byte is another.
    #[track_caller]
    pub fn holds(&self, reader: Reader, seen: &[String], when: &str) {
        let truth = self.for_reader(reader);
        if truth != seen {
            let same = truth.iter().zip(seen).take_while(|(a, b)| a == b).count();
            panic!(
                "{when}, {reader:?}: the first {same} are right of {} seen and {} in the log; then it saw {:?} and the log has {:?}",
                seen.len(),
                truth.len(),
                seen.get(same),
                truth.get(same)
            );
        }
    }
}
