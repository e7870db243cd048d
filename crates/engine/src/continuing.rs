//! The input of the exchange that goes on with a suspended run. When no client sends one, for an answer by the run API or a
//! deadline, it is what a client that followed the run would send. A client's is by the names that it was told.

use runwire_agui::{Event, PROTOCOL_VERSION, Reducer, RunAgentInput, StateSnapshot};
use runwire_bridge::{OwnNames, Peer, Projection, StoredPayload, TEXT_PAYLOAD};
use runwire_frame::Frame;
use runwire_store::{ReadError, RunFilter, RunRecord, Store};
use serde_json::Value;

use crate::history_reader::stored_payload;
use crate::recovery::RecoverError;
use crate::request::CreateRunError;

/// How many frames are read at once.
const PAGE: usize = 1024;

/// The last exchange's input with what the run has made since: its messages, and the state as it is now. Tools and context
/// are the same. `resume` is left to the caller.
pub(crate) async fn next_input(
    store: &Store,
    record: &RunRecord,
    exchange_id: &str,
) -> Result<RunAgentInput, CreateRunError> {
    let run_id = &record.run_id;
    let unreadable = |error: &dyn std::fmt::Display| CreateRunError::Log(error.to_string());
    let mut projection = Projection::new(Peer::Current);
    let mut reducer = Reducer::new();
    let mut last: Option<RunAgentInput> = None;
    let mut head = 0;
    loop {
        let page = store.read(run_id, head, PAGE).await?;
        if page.is_empty() {
            break;
        }
        for entry in page {
            head = entry.seq();
            let frame = Frame::decode(&entry.body()).map_err(|e| unreadable(&e))?;
            let payload = stored_payload(store, &frame).await?;
            for event in projection.push(&frame, payload.as_ref()).map_err(|e| unreadable(&e))? {
                if let Event::RunStarted(started) = &event
                    && let Some(input) = projection.asked().or_else(|| started.input.as_deref().cloned())
                {
                    let before = reducer.state().clone();
                    reducer = Reducer::from_input(&input);
                    // An input that says nothing of the state leaves it as it was.
                    if input.state.is_none() && last.is_some() {
                        reducer.apply(StateSnapshot::new(before).into(), 0);
                    }
                    last = Some(input);
                } else {
                    // What does not apply, does not for any client.
                    reducer.apply(event, 0);
                }
            }
            // A long log is passed over without waiting for anything.
            tokio::task::consume_budget().await;
        }
    }
    let mut input = match last {
        Some(input) => input,
        // No exchange echoed what it was asked.
        None => {
            let first = store.input(run_id).await?.unwrap_or_default();
            RunAgentInput::decode_value(first).map_err(|e| unreadable(&e))?.0
        }
    };
    let (messages, state) = reducer.into_parts();
    input.messages = messages;
    input.state = Some(state).filter(|state| *state != Value::Null);
    input.thread_id.clone_from(&record.session_id);
    exchange_id.clone_into(&mut input.run_id);
    input.protocol_version = Some(PROTOCOL_VERSION.to_owned());
    input.resume = None;
    Ok(input)
}

/// How many runs of a conversation are looked at for the names that they gave, the newest first.
const RUNS: usize = 100;

/// Of how many of them that had one attempt the beginning is read. What a client was told goes on from run to run, so it is
/// in one of the last, if in any.
const BEGINNINGS: usize = 10;

/// What the agent of a run calls the things that a client was told under other names by its runs before this one in the
/// conversation. A run whose log is damaged, or was removed in between, says nothing of it: it takes nothing from this one.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn own_names_before(store: &Store, run_id: &str) -> Result<OwnNames, RecoverError> {
    let mut names = OwnNames::default();
    let Some(record) = store.run(run_id).await? else { return Ok(names) };
    let filter = RunFilter {
        agent_id: Some(record.agent_id),
        session_id: Some(record.session_id),
        limit: RUNS,
        ..RunFilter::default()
    };
    let mut beginnings = 0;
    for earlier in store.runs(filter).await? {
        if earlier.run_id == run_id {
            continue;
        }
        let own = if earlier.attempt > 1 {
            own_names(store, &earlier.run_id).await
        } else if beginnings < BEGINNINGS {
            beginnings += 1;
            names_taken_up(store, &earlier.run_id).await
        } else {
            continue;
        };
        match own {
            Ok(own) => names.add(own),
            Err(error @ RecoverError::Read(ReadError::Storage(_))) => return Err(error),
            Err(error) => tracing::error!(
                run_id = %earlier.run_id, %error,
                "the log of a run cannot be read; the names that it has told go on to no run behind it"
            ),
        }
    }
    Ok(names)
}

/// The names that a run has taken up of those before it. One of a single attempt gives none itself, so its beginning has all.
async fn names_taken_up(store: &Store, run_id: &str) -> Result<OwnNames, RecoverError> {
    let mut projection = Projection::new(Peer::Current);
    for entry in store.read(run_id, 0, 1).await? {
        let frame = Frame::decode(&entry.body()).map_err(|source| RecoverError::Frame { seq: entry.seq(), source })?;
        projection.push(&frame, None)?;
    }
    Ok(projection.own_names())
}

/// What the agent of a run calls the things that a client was told under other names. Those are given where an attempt
/// follows another one.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn own_names(store: &Store, run_id: &str) -> Result<OwnNames, RecoverError> {
    let mut projection = Projection::new(Peer::Current);
    let mut head = 0;
    loop {
        let page = store.read(run_id, head, PAGE).await?;
        if page.is_empty() {
            return Ok(projection.own_names());
        }
        for entry in page {
            head = entry.seq();
            let frame = Frame::decode(&entry.body()).map_err(|source| RecoverError::Frame { seq: head, source })?;
            // What a result says is of no interest here, only which call it is of.
            let payload = Projection::needs_payload(&frame)
                .map(|_| StoredPayload { content_type: TEXT_PAYLOAD.to_owned(), bytes: <_>::default() });
            projection.push(&frame, payload.as_ref())?;
            tokio::task::consume_budget().await;
        }
    }
}
