//! A run's log as the tests make and read one: relayed from AG-UI events or recorded by hand, validated, projected.

#![allow(clippy::unwrap_used, dead_code, reason = "each test program uses its own part")]

use std::collections::HashMap;

use runwire_agui::{Event, RunAgentInput, Verifier};
use runwire_bridge::{
    ExchangeEnd, Ingest, LogState, Payload, Peer, Projection, Recorded, Recorder, StoredPayload, Upstream,
    UpstreamStep, started_members,
};
use runwire_frame::{Data, Frame, FrameType, LogValidator, RunStart, Timestamp};
use serde_json::{Map, Value, json};

pub const THREAD: &str = "thread-1";

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_unix_millis(millis)
}

pub fn run_start(agui: Option<Map<String, Value>>) -> RunStart {
    let extra = agui.map(|a| Map::from_iter([("agui".to_owned(), Value::Object(a))])).unwrap_or_default();
    RunStart {
        agent_id: "agent".into(),
        agent_revision_id: None,
        session_id: Some(THREAD.into()),
        lane: None,
        trigger_kind: None,
        attempt: 1,
        extra,
    }
}

/// A recorder in the first attempt of run `run_1`.
pub fn recorder() -> Recorder {
    Recorder::start(LogState::new("run_1"), at(0), run_start(None))
}

pub fn input(run_id: &str) -> RunAgentInput {
    RunAgentInput::new(THREAD, run_id, Vec::new())
}

pub fn event(value: Value) -> Event {
    Event::from_value(value.clone()).unwrap_or_else(|e| panic!("{e} in {value}"))
}

pub fn events(values: Vec<Value>) -> Vec<Event> {
    values.into_iter().map(event).collect()
}

/// The frames and payloads of one run.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub frames: Vec<Frame>,
    pub payloads: Vec<Payload>,
}

impl Log {
    pub fn append(&mut self, recorded: Recorded) {
        self.frames.extend(recorded.frames);
        self.payloads.extend(recorded.payloads);
    }

    pub fn of(recorded: Recorded) -> Log {
        let mut log = Log::default();
        log.append(recorded);
        log
    }

    /// Each frame's type, in order.
    pub fn types(&self) -> Vec<FrameType> {
        self.frames.iter().map(|f| f.data.frame_type()).collect()
    }

    /// Each frame's data as JSON, of one type.
    pub fn data(&self, frame_type: FrameType) -> Vec<Value> {
        let of_type = self.frames.iter().filter(|f| f.data.frame_type() == frame_type);
        of_type.map(|f| serde_json::to_value(&f.data).unwrap()).collect()
    }

    pub fn texts(&self) -> Vec<String> {
        let text = |f: &Frame| match &f.data {
            Data::TextDelta(d) => Some(d.text.clone()),
            _ => None,
        };
        self.frames.iter().filter_map(text).collect()
    }

    pub fn statuses(&self) -> Vec<String> {
        let statuses = self.data(FrameType::RunStatus);
        statuses.iter().map(|d| d["status"].as_str().unwrap().to_owned()).collect()
    }

    /// Every log that the recorder writes is a legal one, and is what its bytes say.
    pub fn assert_legal(&self) {
        let mut validator = LogValidator::new();
        for frame in &self.frames {
            validator.push(frame).unwrap_or_else(|e| panic!("{e}\n{}", self.dump()));
            assert_eq!(&Frame::decode(&frame.encode()).unwrap(), frame, "a frame is read back as it was written");
        }
    }

    pub fn assert_legal_and_ended(&self) {
        self.assert_legal();
        let last = self.frames.last().map(|f| f.data.frame_type());
        assert_eq!(last, Some(FrameType::RunEnd), "{}", self.dump());
    }

    pub fn fold(&self) -> LogState {
        let mut state = LogState::new(&*self.frames[0].run_id);
        for frame in &self.frames {
            state.apply(frame).unwrap();
        }
        state
    }

    pub fn dump(&self) -> String {
        self.frames.iter().map(|f| String::from_utf8_lossy(&f.encode()).into_owned() + "\n").collect()
    }

    /// The events that each frame stands for.
    pub fn project_each(&self, peer: Peer) -> (Vec<Vec<Event>>, Vec<String>) {
        let mut projection = Projection::new(peer);
        let payloads: HashMap<_, _> = self.payloads.iter().map(|p| (p.segment_id.clone(), p)).collect();
        let mut out = Vec::new();
        for frame in &self.frames {
            let payload = Projection::needs_payload(frame).map(|id| {
                let payload = payloads.get(id).unwrap_or_else(|| panic!("{id} has its payload"));
                StoredPayload { content_type: payload.content_type.to_owned(), bytes: payload.bytes.clone() }
            });
            // Through the bytes, because these are what is stored.
            let frame = Frame::decode(&frame.encode()).unwrap();
            out.push(projection.push(&frame, payload.as_ref()).unwrap_or_else(|e| panic!("{e}\n{}", self.dump())));
        }
        (out, projection.take_warnings())
    }

    /// The AG-UI events of the log, which a conforming consumer takes.
    pub fn project(&self) -> Vec<Event> {
        let (each, warnings) = self.project_each(Peer::Current);
        let refused: Vec<&String> = warnings.iter().filter(|w| w.contains("not told as it is there")).collect();
        assert!(refused.is_empty(), "{refused:?}");
        let events: Vec<Event> = each.into_iter().flatten().collect();
        assert_conforming(&events);
        events
    }

    /// The same as JSON, without the members that the test does not look at.
    pub fn project_json(&self) -> Vec<Value> {
        self.project().iter().map(Event::to_value).collect()
    }

    pub fn project_types(&self) -> Vec<String> {
        types(&self.project())
    }
}

pub fn types(events: &[Event]) -> Vec<String> {
    events.iter().map(|e| e.event_type().as_str().to_owned()).collect()
}

pub fn assert_conforming(events: &[Event]) {
    let mut verifier = Verifier::new();
    for event in events {
        let shown = || events.iter().map(|e| e.to_json_string() + "\n").collect::<String>();
        verifier.push(event).unwrap_or_else(|v| panic!("{v}\n{}", shown()));
    }
}

/// Relays the stream that an upstream agent answers an input with. `gaps` are the milliseconds before each event, and
/// whether the waiting deltas are flushed in between, as a timer may.
pub struct Relay {
    pub log: Log,
    pub state: Option<LogState>,
    now: i64,
}

impl Relay {
    pub fn new(run_id: &str) -> Relay {
        Relay { log: Log::default(), state: Some(LogState::new(run_id)), now: 0 }
    }

    pub fn exchange(&mut self, input: &RunAgentInput, events: &[Event], gaps: &[(u8, bool)]) {
        let mut upstream = Upstream::new(input.clone());
        let mut recorder: Option<Recorder> = None;
        let mut ingest = Ingest::new(input);
        for (i, event) in events.iter().enumerate() {
            let (gap, flush) = gaps.get(i % gaps.len().max(1)).copied().unwrap_or((0, false));
            self.now += i64::from(gap);
            match upstream.push(event.clone()) {
                UpstreamStep::Hold => {}
                UpstreamStep::Begin(started, replayed) => {
                    let state = self.state.take().expect("one exchange at a time");
                    let agui = Some(started_members(&started));
                    let mut begun = if state.head() == 0 {
                        Recorder::start(state, at(self.now), run_start(agui))
                    } else {
                        let begun = Recorder::resume(state, at(self.now), Some("user".into()), agui);
                        ingest = Ingest::resumed(input, &begun);
                        begun
                    };
                    ingest.record_replayed(&mut begun, at(self.now), &replayed, input);
                    recorder = Some(begun);
                }
                UpstreamStep::Record(event) => {
                    let recorder = recorder.as_mut().expect("content comes in a run");
                    ingest.record(recorder, at(self.now), &event);
                    if flush {
                        self.now += 3;
                        recorder.flush(at(self.now));
                    }
                    self.log.append(recorder.take());
                }
            }
        }
        self.now += 1;
        let now = at(self.now);
        let recorder = recorder.unwrap_or_else(|| {
            let state = self.state.take().expect("one exchange at a time");
            if state.head() == 0 { Recorder::start(state, now, run_start(None)) } else { Recorder::recover(state) }
        });
        match upstream.finish() {
            ExchangeEnd::Completed(completion) => self.log.append(recorder.complete(now, completion)),
            ExchangeEnd::Cancelled { usage, agui } => self.log.append(recorder.cancel(now, &usage, agui)),
            ExchangeEnd::Failed(failure) => self.log.append(recorder.fail(now, failure)),
            ExchangeEnd::Suspended(suspension) => {
                let (recorded, state) = recorder.suspend(now, suspension);
                self.log.append(recorded);
                self.state = Some(state);
            }
        }
    }
}

/// The log of one exchange that begins and ends as usual, around these events.
pub fn relayed(content: Vec<Value>) -> Log {
    let mut all = vec![json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": "exchange-1"})];
    all.extend(content);
    all.push(json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": "exchange-1"}));
    relayed_whole(all)
}

/// The log of one exchange that these events are the whole of.
pub fn relayed_whole(all: Vec<Value>) -> Log {
    let all = events(all);
    assert_conforming(&all);
    let mut relay = Relay::new("run_1");
    relay.exchange(&input("exchange-1"), &all, &[(30, false)]);
    relay.log.assert_legal();
    assert_eq!(relay.log.fold().head(), relay.log.frames.len() as u64);
    relay.log
}
