//! `runwire verify-log`: proves that a store is consistent, or says where it is not.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::bail;
use runwire_frame::{Data, Frame, LogValidator, RunStatus, SegmentKind};
use runwire_store::{Fault, InspectedRun, Inspection, OpenError, StorageFailure};
use serde_json::json;

use crate::cli::VerifyLogArgs;
use crate::exit::Exit;
use crate::plain::Plain;

/// What was looked at.
#[derive(Default)]
struct Looked {
    runs: u64,
    frames: u64,
    payloads: u64,
}

/// Checks the store and prints what is wrong with it.
pub fn run(args: VerifyLogArgs) -> anyhow::Result<Exit> {
    // Opening would otherwise leave a lock file beside nothing.
    if !args.store.exists() {
        bail!("there is no store {}", args.store.display());
    }
    let mut looked = Looked::default();
    let faults = match verify(&args.store, &mut looked) {
        Ok(faults) => faults,
        // That it cannot be opened because it is damaged is what was asked for.
        Err(Unverified::Open(error @ OpenError::Corrupt { .. })) => vec![of_the_file(error.to_string())],
        Err(Unverified::Open(error)) => return Err(error.into()),
        Err(Unverified::Read(error)) => return Err(error.into()),
    };
    let Looked { runs, frames, payloads } = looked;
    let mut out = io::stdout().lock();
    if args.json {
        let shown = |f: &Fault| json!({ "run_id": f.run_id, "seq": f.seq, "what": f.what });
        let findings: Vec<_> = faults.iter().map(shown).collect();
        let consistent = faults.is_empty();
        let counts = json!({ "runs": runs, "frames": frames, "payloads": payloads });
        writeln!(out, "{}", json!({ "consistent": consistent, "checked": counts, "findings": findings }))?;
    } else {
        for Fault { run_id, seq, what } in &faults {
            let (run, what) = (Plain(run_id.as_deref().unwrap_or("the store")), Plain(what));
            match seq {
                Some(seq) => writeln!(out, "{run}, frame {seq}: {what}")?,
                None => writeln!(out, "{run}: {what}")?,
            }
        }
        let verdict = match faults.len() {
            0 => "consistent".to_owned(),
            1 => "not consistent, 1 finding".to_owned(),
            many => format!("not consistent, {many} findings"),
        };
        writeln!(out, "{verdict}: {runs} runs, {frames} frames, {payloads} payloads")?;
    }
    Ok(if faults.is_empty() { Exit::Done } else { Exit::Failed })
}

enum Unverified {
    Open(OpenError),
    Read(StorageFailure),
}

impl From<OpenError> for Unverified {
    fn from(error: OpenError) -> Unverified {
        Unverified::Open(error)
    }
}

impl From<StorageFailure> for Unverified {
    fn from(error: StorageFailure) -> Unverified {
        Unverified::Read(error)
    }
}

fn of_the_file(what: String) -> Fault {
    Fault { run_id: None, seq: None, what }
}

fn verify(path: &Path, looked: &mut Looked) -> Result<Vec<Fault>, Unverified> {
    let store = Inspection::open(path)?;
    let mut faults = store.file_faults()?;
    if !faults.is_empty() {
        return Ok(faults);
    }
    faults = store.reference_faults()?;
    let mut before = None;
    while let Some(run) = store.next_run(before.as_ref())? {
        looked.runs += 1;
        verify_run(&store, &run, looked, &mut faults)?;
        before = Some(run);
    }
    Ok(faults)
}

/// What the log of one run says, as far as the record and the payloads have to agree with it.
#[derive(Default)]
struct Said {
    status: Option<RunStatus>,
    attempt: u32,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    /// The size of the whole, by the segment of a result that was cut.
    wholes: HashMap<String, u64>,
    /// The segments that are model calls, of which what was asked and answered can be kept.
    model_calls: HashSet<String>,
}

impl Said {
    fn frame(&mut self, frame: &Frame) {
        match &frame.data {
            Data::RunStart(start) => {
                self.attempt = start.attempt;
                if start.attempt == 1 {
                    self.started_at = Some(frame.ts.unix_millis());
                }
            }
            Data::RunStatus(change) => self.status = Some(change.status),
            Data::RunEnd(_) => self.ended_at = Some(frame.ts.unix_millis()),
            Data::SegmentStart(start) if start.kind == SegmentKind::Model => {
                self.model_calls.extend(frame.segment_id.as_ref().map(|segment| segment.as_str().to_owned()));
            }
            Data::ToolResult(result) if result.truncated => {
                if let Some(segment) = &frame.segment_id {
                    self.wholes.insert(segment.as_str().to_owned(), result.bytes);
                }
            }
            _ => {}
        }
    }
}

fn verify_run(
    store: &Inspection,
    run: &InspectedRun,
    looked: &mut Looked,
    faults: &mut Vec<Fault>,
) -> Result<(), Unverified> {
    let fault = |seq: Option<u64>, what: String| Fault { run_id: Some(run.run_id.clone()), seq, what };
    let mut said = Said::default();
    let mut validator = LogValidator::new();
    let mut wrong = None;
    let in_order = store.read_log(run, |seq, body| {
        looked.frames += 1;
        // One finding a log: what follows the first is mostly its consequence.
        if wrong.is_some() {
            return;
        }
        let frame = match Frame::decode(body) {
            Ok(frame) => frame,
            Err(error) => {
                wrong = Some(fault(Some(seq), format!("the body is no frame: {error}")));
                return;
            }
        };
        if *frame.run_id != *run.run_id {
            wrong = Some(fault(Some(seq), format!("the body is of the run {}", frame.run_id)));
        } else if frame.seq != seq {
            wrong = Some(fault(Some(seq), format!("the body says that it is frame {}", frame.seq)));
        } else if run.oldest == 1
            && let Err(violation) = validator.push(&frame)
        {
            // A log whose beginning was cut off can only be checked frame by frame.
            wrong = Some(fault(Some(seq), violation.to_string()));
        }
        said.frame(&frame);
    })?;
    if let Some(first) = wrong.or(in_order) {
        faults.push(first);
        return Ok(());
    }
    if run.oldest == 1 {
        verify_record(run, &said, |what| faults.push(fault(None, what)));
    }
    let payloads = store.payloads(run)?;
    looked.payloads += payloads.len() as u64;
    for payload in payloads {
        let segment = payload.segment_id;
        match said.wholes.remove(&segment) {
            Some(bytes) if bytes == payload.bytes => {}
            Some(bytes) => {
                let what = format!("the payload of {segment} has {} bytes, and its result says {bytes}", payload.bytes);
                faults.push(fault(None, what));
            }
            None if run.oldest > 1 || said.model_calls.contains(&segment) => {}
            None => faults.push(fault(
                None,
                format!("the payload of {segment} belongs to no result and no model call of the log"),
            )),
        }
    }
    let mut missing: Vec<&String> = said.wholes.keys().collect();
    missing.sort();
    for segment in missing {
        faults.push(fault(None, format!("the result of {segment} was cut, and the whole of it is not there")));
    }
    Ok(())
}

fn verify_record(run: &InspectedRun, said: &Said, mut fault: impl FnMut(String)) {
    let mut differs = |what: &str, record: String, log: String| {
        if record != log {
            fault(format!("the record says that {what} is {record}, and the log {log}"));
        }
    };
    let time = |millis: Option<i64>| millis.map_or("not there".to_owned(), |millis| millis.to_string());
    let status = said.status.unwrap_or(RunStatus::Queued);
    differs("the status", run.status.clone(), status.as_str().to_owned());
    differs("the attempt", run.attempt.to_string(), said.attempt.to_string());
    differs("started_at", time(run.started_at), time(said.started_at));
    differs("ended_at", time(run.ended_at), time(said.ended_at));
}
