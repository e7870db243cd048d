//! `GET /v2/sessions/{id}/stream`: all runs of a session in one connection.

use std::collections::VecDeque;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use runwire_store::{Entry, ReadError, RunRecord, SessionWatch, Tail, TailError, TailItem};

use crate::app::App;
use crate::auth::Principal;
use crate::cursor::CursorQuery;
use crate::event_stream::{Source, StreamError, respond};
use crate::openness::Checked;
use crate::problem::Problem;
use crate::session_cursor::RunPlace;

/// `GET /v2/sessions/{id}/stream`
pub(crate) async fn stream(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(session_id)): Checked<Path<String>>,
    Checked(Query(query)): Checked<Query<CursorQuery>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let places = query.session_cursor(&headers)?;
    let session = app.store().session(&session_id).await?;
    if !session.is_some_and(|session| principal.may_see_session(&session)) {
        return Err(Problem::session_not_found(&session_id));
    }
    // Before the runs are read, so that no run is created unheard between the two.
    let watch = app.store().watch_session(&session_id);
    let mut source = SessionSource {
        app: app.clone(),
        principal,
        session_id,
        watch,
        listed: places.last().map(|place| place.run_id.clone()),
        listing: None,
        waiting: VecDeque::new(),
        opening: None,
        reading: FuturesUnordered::new(),
        begun: Vec::new(),
    };
    source.resume(places).await?;
    source.look();
    Ok(respond(&app, source))
}

/// A run of which the reader does not have everything, or the newest one that was begun.
struct Begun {
    place: RunPlace,
    /// Whether it had ended when it was begun. Then nothing is begun before it is through: its end is near.
    first: bool,
    /// Whether everything of it was given.
    through: bool,
}

type Next = (String, Tail, Result<TailItem, ReadError>);

/// Reads the runs of a session in the order of their creation: one that has ended is read to its end before the next is
/// begun, those that have not are read side by side, and a new run is begun when it is heard of.
struct SessionSource {
    app: App,
    principal: Principal,
    session_id: String,
    watch: SessionWatch,
    /// The last run that is known.
    listed: Option<String>,
    // Whatever waits is kept, so that `next` can be dropped at any await and called again.
    listing: Option<BoxFuture<'static, Result<Vec<RunRecord>, ReadError>>>,
    /// Known, and not begun.
    waiting: VecDeque<RunRecord>,
    opening: Option<BoxFuture<'static, Result<Tail, TailError>>>,
    /// The next of each run that was begun and is not through. Each holds at most a page, and only what the reader pulls
    /// makes it read the next.
    reading: FuturesUnordered<BoxFuture<'static, Next>>,
    /// In the order of creation; written out, this is the cursor.
    begun: Vec<Begun>,
}

impl SessionSource {
    /// Takes up the runs of a cursor.
    async fn resume(&mut self, places: Vec<RunPlace>) -> Result<(), Problem> {
        for place in places {
            let run = self.app.store().run(&place.run_id).await?;
            let run = run.filter(|run| run.session_id == self.session_id && self.principal.may_see(run));
            let Some(run) = run else { return Err(Problem::run_gone(&place.run_id)) };
            let tail = self.app.store().tail(&place.run_id, place.seq).await;
            let tail = tail.map_err(|e| match e {
                TailError::UnknownRun => Problem::run_gone(&place.run_id),
                error => Problem::from_tail(error, &place.run_id).with("run_id", place.run_id.clone()),
            })?;
            self.begin(place, run.ended_at.is_some(), tail);
        }
        Ok(())
    }

    /// Looks for runs after the last that is known.
    fn look(&mut self) {
        let (store, session_id, after) = (self.app.store().clone(), self.session_id.clone(), self.listed.clone());
        self.listing = Some(Box::pin(async move { store.session_runs(&session_id, after.as_deref()).await }));
    }

    fn begin(&mut self, place: RunPlace, first: bool, tail: Tail) {
        // Until now the newest was named whether it was through or not.
        self.begun.retain(|begun| !begun.through);
        self.reading.push(next_of(place.run_id.clone(), tail));
        self.begun.push(Begun { place, first, through: false });
    }

    /// What of a run came next, as it goes onto the wire.
    fn came(&mut self, (run_id, tail, item): Next) -> Result<Option<Bytes>, StreamError> {
        let Some(at) = self.begun.iter().position(|begun| begun.place.run_id == run_id) else { return Ok(None) };
        match item? {
            TailItem::Frames(entries) => {
                let before: String = self.begun[..at].iter().map(|begun| format!("{},", begun.place)).collect();
                let behind: String = self.begun[at + 1..].iter().map(|begun| format!(",{}", begun.place)).collect();
                let around = "id: \ndata: \n\n".len() + before.len() + run_id.len() + 21 + behind.len();
                let mut chunk = Vec::with_capacity(entries.iter().map(|e| e.body().len() + around).sum());
                for entry in &entries {
                    chunk.extend_from_slice(format!("id: {before}{run_id}:{}{behind}\ndata: ", entry.seq()).as_bytes());
                    chunk.extend_from_slice(&entry.body());
                    chunk.extend_from_slice(b"\n\n");
                }
                if let Some(seq) = entries.last().map(Entry::seq) {
                    self.begun[at].place.seq = seq;
                }
                self.reading.push(next_of(run_id, tail));
                Ok(Some(chunk.into()))
            }
            TailItem::Ended => {
                if at + 1 == self.begun.len() {
                    self.begun[at].through = true;
                } else {
                    self.begun.remove(at);
                }
                Ok(None)
            }
        }
    }
}

fn next_of(run_id: String, mut tail: Tail) -> BoxFuture<'static, Next> {
    Box::pin(async move {
        let item = tail.next().await;
        (run_id, tail, item)
    })
}

impl Source for SessionSource {
    async fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        loop {
            if let Some(listing) = &mut self.listing {
                let runs = listing.await?;
                self.listing = None;
                if let Some(last) = runs.last() {
                    self.listed = Some(last.run_id.clone());
                    self.waiting.extend(runs.into_iter().filter(|run| self.principal.may_see(run)));
                    // There may be more than fit into one list.
                    self.look();
                    continue;
                }
            }
            if let Some(opening) = &mut self.opening {
                let opened = opening.await;
                self.opening = None;
                if let Some(run) = self.waiting.pop_front() {
                    match opened {
                        Ok(tail) => {
                            let place = RunPlace { run_id: run.run_id, seq: 0 };
                            self.begin(place, run.ended_at.is_some(), tail);
                        }
                        // It was deleted after it was listed, and is as if it had never been.
                        Err(TailError::UnknownRun) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            if let Some(run) = self.waiting.front()
                && !self.begun.iter().any(|begun| begun.first && !begun.through)
            {
                let (store, run_id) = (self.app.store().clone(), run.run_id.clone());
                self.opening = Some(Box::pin(async move { store.tail(&run_id, 0).await }));
                continue;
            }
            tokio::select! {
                Some(next) = self.reading.next() => {
                    if let Some(chunk) = self.came(next)? {
                        return Ok(Some(chunk));
                    }
                }
                () = self.watch.changed() => self.look(),
            }
        }
    }
}
