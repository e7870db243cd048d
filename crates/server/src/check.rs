//! What a checker says of a run's AG-UI view: `runwire check`, for a run that is here.
//!
//! The log goes through the projection and the checker in pieces, in the order of the log, so what is held of it does not
//! grow with it, apart from what a client would hold of its beginning.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use runwire_agui::{
    CheckOptions, CheckRule, Checker, Earlier, Finding, Form, Judgement, Keep, Peer, ReportedError, ReportedOutcome,
    ReportedRun, Severity,
};
use serde::Serialize;

use crate::app::App;
use crate::auth::Principal;
use crate::binding::Binding;
use crate::event_places::EventPlaces;
use crate::event_stream::{Source, StreamError};
use crate::openness::Checked;
use crate::problem::Problem;
use crate::projection_stream::{Notes, ProjectionSource, Scope};

/// So many of each list are told; the answer says how many more there are.
const MOST_TOLD: usize = 500;

/// The messages and the state of a view are built up to so many bytes of it. Behind that, a patch that does not apply is
/// not found.
const MOST_REDUCED_BYTES: u64 = 32 * 1024 * 1024;

/// A sentence about the log is told up to so many characters: names in it are as long as the log makes them.
const SENTENCE_CHARACTERS: usize = 400;

/// The answer to `GET /v2/runs/{id}/check`.
#[derive(Debug, Serialize)]
struct RunCheck {
    run_id: String,
    /// The last frame that was looked at.
    through: u64,
    /// Whether the run was over when it was asked for.
    ended: bool,
    /// `None` while the run goes on and nothing is wrong.
    outcome: Option<ReportedOutcome>,
    error: Option<ReportedError>,
    runs: Vec<ReportedRun>,
    findings: Vec<Told>,
    left_out: Vec<LeftOut>,
    /// Why the view breaks off, for everybody who reads it.
    broken: Option<String>,
    /// How many are not told of each list.
    more: More,
    events: Events,
}

/// A [`Finding`] that names frames.
#[derive(Debug, Serialize)]
struct Told {
    rule: CheckRule,
    severity: Severity,
    message: String,
    event: usize,
    id: Option<String>,
    path: Option<String>,
    page: String,
    expected: String,
    found: String,
    contradicts: Option<ToldEarlier>,
    excerpt: Option<String>,
}

/// An [`Earlier`] event by its frame.
#[derive(Debug, Serialize)]
struct ToldEarlier {
    event: usize,
    id: Option<String>,
    what: String,
}

/// What a frame says and no client can be told.
#[derive(Debug, Serialize)]
struct LeftOut {
    seq: u64,
    message: String,
}

#[derive(Debug, Serialize)]
struct More {
    runs: usize,
    findings: usize,
    left_out: usize,
}

#[derive(Debug, Serialize)]
struct Events {
    read: usize,
    delivered: usize,
    reduced: usize,
    /// How many warnings the checker itself did not keep.
    #[serde(skip)]
    untold: usize,
}

/// `GET /v2/runs/{id}/check`
///
/// Whoever leaves stops it: what is under way then is one piece of the log.
pub(crate) async fn check(
    State(app): State<App>,
    principal: Principal,
    Checked(Path(run_id)): Checked<Path<String>>,
) -> Result<Response, Problem> {
    let going = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", "the server is shutting down");
    app.visible_run(&principal, &run_id).await?;
    tokio::select! {
        biased;
        () = app.inner.closing.cancelled() => Err(going),
        checked = checked(&app, &principal, &run_id) => checked.map(|checked| Json(checked).into_response()),
    }
}

async fn checked(app: &App, principal: &Principal, run_id: &str) -> Result<RunCheck, Problem> {
    let _turn = app.inner.checks.acquire().await.map_err(|closed| Problem::internal(&closed))?;
    // What is there when its turn has come.
    let record = app.visible_run(principal, run_id).await?;
    let tail = app.store().tail(run_id, 0).await.map_err(|e| Problem::from_tail(e, run_id))?;
    let (store, scope) = (app.store().clone(), Scope::WholeRun);
    let source = ProjectionSource::new(store, run_id, tail, Peer::Current, Binding::Sse, scope, None);
    let Reading { checker, places, left_out, more_left_out, broken } = Reading::of(source.up_to(record.head)).await?;
    let judgement = aside(|| checker.finish()).await?.map_err(|error| Problem::internal(&error))?;
    let ended = record.ended_at.is_some();
    // A run that goes on has not stopped short; one whose view breaks off has, whatever is behind that.
    let Verdict { outcome, error, runs, findings, events } = Verdict::of(judgement, ended || broken.is_some());
    let (told, more_findings) = first(findings, |finding| finding.severity <= Severity::Truncation);
    let (runs, more_runs) = first(runs, |_| false);
    Ok(RunCheck {
        run_id: run_id.to_owned(),
        through: record.head,
        ended,
        outcome,
        error,
        runs,
        findings: told.into_iter().map(|finding| Told::of(finding, &places)).collect(),
        left_out,
        broken,
        more: More { runs: more_runs, findings: more_findings + events.untold, left_out: more_left_out },
        events,
    })
}

/// Work that takes the processor for a while, where nobody waits for it to make way. It is awaited; when it is not any more,
/// it goes on to its end, which is near.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(&error))
}

/// The first of the items, and those that are not to be missed; and how many more there are.
fn first<T>(mut items: Vec<T>, not_to_miss: impl Fn(&T) -> bool) -> (Vec<T>, usize) {
    let (all, mut place) = (items.len(), 0);
    items.retain(|item| {
        place += 1;
        place <= MOST_TOLD || not_to_miss(item)
    });
    let more = all - items.len();
    (items, more)
}

/// A view that was read to its end, and not judged yet.
struct Reading {
    checker: Checker,
    places: EventPlaces,
    left_out: Vec<LeftOut>,
    more_left_out: usize,
    broken: Option<String>,
}

impl Reading {
    async fn of(source: ProjectionSource) -> Result<Reading, Problem> {
        let mut source = source.with_notes();
        let keep = Keep::Conversation { most_bytes: MOST_REDUCED_BYTES };
        let mut reading = Reading {
            checker: Checker::new(CheckOptions { form: Some(Form::Sse), keep, ..CheckOptions::default() }),
            places: EventPlaces::default(),
            left_out: Vec::new(),
            more_left_out: 0,
            broken: None,
        };
        loop {
            match source.next().await {
                Ok(Some(events)) => {
                    reading = reading.take(events, source.take_notes()).await?;
                    if reading.broken.is_some() {
                        return Ok(reading);
                    }
                }
                Ok(None) => return Ok(reading),
                Err(StreamError::Read(error)) => return Err(error.into()),
                Err(error) => {
                    reading = reading.take(source.take_rest(), source.take_notes()).await?;
                    reading.broken = Some(shortened(&error.to_string()));
                    return Ok(reading);
                }
            }
        }
    }

    async fn take(mut self, events: Bytes, notes: Notes) -> Result<Reading, Problem> {
        for id in notes.ids {
            self.places.push(id);
        }
        for (seq, message) in notes.left_out {
            if self.left_out.len() < MOST_TOLD {
                self.left_out.push(LeftOut { seq, message: shortened(&message) });
            } else {
                self.more_left_out += 1;
            }
        }
        let Reading { mut checker, .. } = self;
        let (checker, pushed) = aside(move || {
            let pushed = checker.push(&events);
            (checker, pushed)
        })
        .await?;
        self.checker = checker;
        // An event that no client would take, because it is too large.
        self.broken = pushed.err().map(|error| shortened(&error.to_string()));
        Ok(self)
    }
}

/// A judgement without what only a recording has, of a run that may go on.
struct Verdict {
    outcome: Option<ReportedOutcome>,
    error: Option<ReportedError>,
    runs: Vec<ReportedRun>,
    findings: Vec<Finding>,
    events: Events,
}

impl Verdict {
    /// `whole` says that nothing will follow, so that what is open stays so.
    fn of(judgement: Judgement, whole: bool) -> Verdict {
        let Judgement { report, mut findings, stream } = judgement;
        let (mut outcome, mut runs) = (Some(report.outcome), report.runs);
        if !whole {
            findings.retain(|finding| finding.severity != Severity::Truncation);
            outcome = outcome.filter(|outcome| *outcome != ReportedOutcome::Truncated);
            for run in runs.iter_mut().filter(|run| run.ending == "truncated") {
                run.ending = "open";
            }
        }
        let events = Events {
            read: stream.events,
            delivered: stream.delivered,
            reduced: stream.reduced,
            untold: stream.untold_warnings,
        };
        Verdict { outcome, error: report.error, runs, findings, events }
    }
}

impl Told {
    fn of(finding: Finding, places: &EventPlaces) -> Told {
        let id_of = |event: usize| places.id_of(event).map(|id| id.to_string());
        Told {
            rule: finding.rule,
            severity: finding.severity,
            message: finding.message,
            event: finding.event,
            id: id_of(finding.event),
            path: finding.path,
            page: finding.page,
            expected: finding.expected,
            found: finding.found,
            contradicts: finding.contradicts.map(|Earlier { event, what, .. }| ToldEarlier {
                event,
                id: id_of(event),
                what,
            }),
            excerpt: finding.excerpt,
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SENTENCE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
