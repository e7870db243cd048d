//! Drivers that call everything with anything: what is wrong is refused when it is written, and whatever was written is a
//! legal log whose AG-UI events a client takes without a word.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fixture::{agent, answers, bed, input, request, so_far};
use runwire_agui::{RunAgentInput, RunStarted};
use runwire_bridge::{Agui, Completion, Ending, ExchangeEnd, Failure, Opening, Suspension, ToolOutput, kind};
use runwire_engine::{RunWriter, Segment, Starting, WriteError};
use runwire_frame::{ErrorCode, NoticeLevel, RunStatus, SegmentId, SegmentStatus, SuspendKind, Usage};
use serde_json::{Map, Value, json};

const RUNS: u64 = 80;

/// SplitMix64, so that a run is named by its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())].clone()
    }

    fn text(&mut self) -> String {
        self.pick(&["", "Hello", "ü🙂\n\n", "RUN_FINISHED", "a b"]).to_owned()
    }

    /// Members under `agui`, a few of which make sense.
    fn agui(&mut self) -> Agui {
        if !self.once_in(4) {
            return None;
        }
        let members = [
            json!({"metadata": {"a": null}}),
            json!({"metadata": 3}),
            json!({"rawEvent": null}),
            json!({"timestamp": 1, "rawEvent": {"b": 1}}),
            json!({"timestamp": i64::MAX}),
            json!({"timestamp": "now"}),
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "mine"}),
            json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "nobody"}),
            json!({"messageId": "mine"}),
            json!({"toolCallId": "other"}),
            json!({"subagentRunId": "nobody"}),
            json!({"threadId": "other"}),
            json!({"result": {"n": 1}}),
            json!({"result": null}),
            json!({"outcome": {"type": "success"}}),
            json!({"outcome": {"type": "cancelled"}}),
            json!({"outcome": {"type": "success", "pendingToolCallIds": ["call_1"]}}),
            json!({"outcome": {"type": "interrupt", "interrupts": []}}),
            json!({"usage": [{"inputTokens": -1}]}),
            json!({"usage": []}),
            json!({"exchangeUsage": 5}),
            json!({"attemptUsage": "much"}),
            json!({"afterFinish": {"outcome": {"type": "success"}}}),
            json!({"afterFinish": 1}),
            json!({"code": "MINE", "newer": true}),
            json!({"deep": nested(200)}),
        ];
        self.pick(&members).as_object().cloned()
    }

    fn usage(&mut self) -> Option<Usage> {
        let entries = [
            json!({"provider": "p", "model": "m", "input_tokens": 5, "output_tokens": 2, "total_tokens": 7}),
            json!({"model": "m", "input_tokens": 5, "cached_input_tokens": 6}),
            json!({"model": "m", "output_tokens": u64::MAX}),
            json!({"model": "m", "total_tokens": 9_007_199_254_740_991_u64}),
            json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 3}),
            json!({}),
        ];
        self.once_in(2).then(|| serde_json::from_value(self.pick(&entries)).unwrap())
    }

    fn usages(&mut self) -> Vec<Usage> {
        (0..self.below(3)).filter_map(|_| self.usage()).collect()
    }

    fn ending(&mut self) -> Ending {
        let status = self.pick(&[
            SegmentStatus::Completed,
            SegmentStatus::Completed,
            SegmentStatus::Failed,
            SegmentStatus::Cancelled,
            SegmentStatus::Abandoned,
        ]);
        Ending { usage: self.usage(), agui: self.agui(), ..Ending::with_status(status) }
    }

    /// A notice's code and attributes.
    fn notice(&mut self) -> (String, Option<Map<String, Value>>) {
        let events = [
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
            json!({"type": "RUN_ERROR", "message": "m"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "m"}),
            json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "v", "activityType": "a", "content": {}}),
            json!({"type": "ACTIVITY_DELTA", "messageId": "v", "activityType": "a", "patch": [{"op": "fly"}]}),
            json!({"type": "ACTIVITY_DELTA", "messageId": "v", "activityType": "a", "patch": [], "subagentRunId": "s"}),
            json!({"type": "RAW", "event": null}),
            json!({"type": "CUSTOM", "name": "n"}),
            json!({"type": "MESSAGES_SNAPSHOT", "messages": []}),
            json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "e", "encryptedValue": "x"}),
            json!({"type": "NOVEL"}),
            json!({"deep": nested(200)}),
            json!({}),
        ];
        let attributes = self.pick(&events);
        let code = match self.below(4) {
            0 => "compaction_applied".to_owned(),
            1 => "agui.CUSTOM".to_owned(),
            _ => format!("agui.{}", attributes["type"].as_str().unwrap_or("")),
        };
        (code, attributes.as_object().cloned().filter(|_| !self.once_in(5)))
    }
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| json!([value]))
}

/// The open segments that a driver holds.
#[derive(Default)]
struct Held {
    models: Vec<Segment<kind::Model>>,
    messages: Vec<Segment<kind::Message>>,
    reasoning: Vec<Segment<kind::Reasoning>>,
    tools: Vec<Segment<kind::Tool>>,
    answered: Vec<Segment<kind::AnsweredTool>>,
    steps: Vec<Segment<kind::Step>>,
    agents: Vec<Segment<kind::Agent>>,
    /// Every segment that there was.
    ids: Vec<SegmentId>,
}

fn take<T>(dice: &mut Dice, held: &mut Vec<T>) -> Option<T> {
    if held.is_empty() { None } else { Some(held.swap_remove(dice.below(held.len()))) }
}

/// Counts what was refused, and hands on what the run cannot go on from.
fn tried<T>(result: Result<T, WriteError>, refused: &AtomicUsize) -> Result<Option<T>, WriteError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(WriteError::Refused(_)) => {
            refused.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn call_anything(
    dice: &mut Dice,
    writer: &RunWriter,
    held: &mut Held,
    refused: &AtomicUsize,
) -> Result<(), WriteError> {
    let mut opening = Opening { agui: dice.agui(), ..Opening::default() };
    if dice.once_in(2) {
        opening.name = Some(dice.text());
    }
    opening.parent = match dice.below(5) {
        0 => Some(SegmentId::from(dice.pick(&["", "seg_", "seg_0", "seg_01", "seg_999", "nonsense"]))),
        1 => None,
        _ if held.ids.is_empty() => None,
        _ => Some(dice.pick(&held.ids)),
    };
    macro_rules! opened {
        ($call:expr, $held:expr) => {
            if let Some(segment) = tried($call.await, refused)? {
                held.ids.push(segment.id().clone());
                $held.push(segment);
            }
        };
    }
    macro_rules! ended {
        ($held:expr) => {
            if let Some(segment) = take(dice, &mut $held) {
                tried(segment.end(dice.ending()).await, refused)?;
            }
        };
    }
    match dice.below(24) {
        0 => opened!(writer.model(opening), held.models),
        1 => opened!(writer.message(opening), held.messages),
        2 => opened!(writer.reasoning(opening), held.reasoning),
        3 => opened!(writer.step(opening), held.steps),
        4 | 5 => opened!(writer.agent(opening), held.agents),
        6 | 7 => {
            let id = dice.pick(&["call_1", "call_2", "told", "told-to-agent", ""]);
            opened!(writer.tool(id, &dice.text(), opening), held.tools);
        }
        8 => ended!(held.models),
        9 => ended!(held.messages),
        10 => ended!(held.reasoning),
        11 => ended!(held.steps),
        12 => ended!(held.agents),
        13 => ended!(held.tools),
        14 => ended!(held.answered),
        15 => {
            if let Some(model) = held.models.last() {
                tried(model.text(&dice.text()).await, refused)?;
                tried(model.thinking(&dice.text()).await, refused)?;
            }
        }
        16 => {
            if let Some(message) = held.messages.last() {
                tried(message.text(&dice.text()).await, refused)?;
            }
            if let Some(reasoning) = held.reasoning.last() {
                tried(reasoning.thinking(&dice.text()).await, refused)?;
            }
        }
        17 => {
            if let Some(tool) = held.tools.last() {
                tried(tool.arguments(&dice.text()).await, refused)?;
                if dice.once_in(2) {
                    tried(tool.arguments_complete().await, refused)?;
                }
            }
        }
        18 => {
            if let Some(tool) = take(dice, &mut held.tools) {
                let outputs = [
                    ToolOutput::Text(dice.text()),
                    ToolOutput::Text("long ".repeat(1000)),
                    ToolOutput::Parts(Vec::new()),
                    ToolOutput::Parts(vec![json!({"type": "text", "text": "x", "metadata": {"a": 1}})]),
                    ToolOutput::Parts(vec![json!({"type": "image", "source": {"type": "file", "value": "f"}})]),
                    ToolOutput::Parts(vec![json!({"type": "text", "text": "x", "metadata": null})]),
                    ToolOutput::Parts(vec![json!(1)]),
                ];
                let output = dice.pick(&outputs);
                if let Some(tool) = tried(tool.result(dice.once_in(2), &output).await, refused)? {
                    held.answered.push(tool);
                }
            }
        }
        19 => {
            if let Some(tool) = held.answered.last() {
                tried(tool.arguments("late").await, refused)?;
                tried(tool.arguments_complete().await, refused)?;
            }
        }
        20 => {
            let states = [json!(null), json!({"n": 1}), nested(200)];
            tried(writer.state_snapshot(dice.pick(&states)).await, refused)?;
        }
        21 => {
            let patches = [
                json!([{"op": "add", "path": "/n", "value": 1, "mine": 2}]),
                json!([{"op": "add", "path": "n"}]),
                json!({}),
                json!([]),
            ];
            tried(writer.state_delta(dice.pick(&patches)).await, refused)?;
        }
        22 => {
            let values = [json!(null), json!([1]), nested(200)];
            let value = dice.pick(&values);
            tried(writer.custom(&dice.text(), value).await, refused)?;
        }
        _ => {
            let (code, attributes) = dice.notice();
            tried(writer.notice(NoticeLevel::Info, &code, &dice.text(), attributes).await, refused)?;
        }
    }
    Ok(())
}

fn any_end(dice: &mut Dice, resumed: bool) -> Result<ExchangeEnd, Box<Failure>> {
    let failure =
        Failure { usage: dice.usages(), agui: dice.agui(), ..Failure::new(ErrorCode::ToolError, dice.text()) };
    match dice.below(8) {
        0 => Ok(ExchangeEnd::Cancelled { usage: dice.usages(), agui: dice.agui() }),
        1 => Ok(ExchangeEnd::Failed(failure)),
        2 => Err(Box::new(failure)),
        3 | 4 if !resumed => {
            let interrupts = [
                json!([{"id": "i1", "reason": "r"}]),
                json!([{"id": "i1", "reason": "r", "subagentRunId": "nobody", "responseSchema": {}}]),
                json!([{"id": "i1", "reason": "r"}, {"id": "i1", "reason": "r"}]),
                json!([{"id": "i1", "reason": "r", "metadata": null}]),
                json!([]),
                json!("none"),
                nested(200),
            ];
            let at = dice.below(interrupts.len() * 3);
            let interrupts = interrupts.get(at).unwrap_or(&interrupts[at % 2]).clone();
            Ok(ExchangeEnd::Suspended(Suspension {
                kind: SuspendKind::Input,
                contract: Map::from_iter([("interrupts".to_owned(), interrupts)]),
                prompt: None,
                deadline: None,
                usage: dice.usages(),
                agui: dice.agui(),
            }))
        }
        _ => Ok(ExchangeEnd::Completed(Completion { usage: dice.usages(), cost: None, agui: dice.agui() })),
    }
}

fn begin(dice: &mut Dice, starting: Starting, input: &RunAgentInput) -> RunWriter {
    let mut started = RunStarted::new("any", &*input.run_id);
    match dice.below(6) {
        0 => started.raw_event = Some(Value::Null),
        1 => started.timestamp = Some(i64::MIN),
        2 => started.metadata = json!({"deep": nested(200)}).as_object().cloned(),
        3 => started.protocol_version = Some("7.5".to_owned()),
        4 => return starting.begin(None),
        _ => {}
    }
    starting.begin(Some(&started))
}

/// An input whose conversation has calls already.
fn told(thread: &str, run: &str) -> Value {
    let mut input = serde_json::to_value(input(thread, run)).unwrap();
    let call = |id: &str| json!([{"id": id, "type": "function", "function": {"name": "n", "arguments": ""}}]);
    let messages = input["messages"].as_array_mut().unwrap();
    messages.push(json!({"id": "m2", "role": "assistant", "toolCalls": call("told")}));
    messages.push(json!({"id": "m3", "role": "assistant", "toolCalls": call("told-to-agent"), "subagentRunId": "s"}));
    input
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_driver_calls_its_log_is_legal_and_a_client_takes_its_events() {
    let refused = Arc::new(AtomicUsize::new(0));
    let endings = Arc::new(Mutex::new(HashMap::<&'static str, usize>::new()));
    let counter = refused.clone();
    let bed = bed([agent("a", move |exchange, starting| {
        let refused = counter.clone();
        async move {
            let seed: u64 = exchange.input.run_id.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            let mut dice = Dice(seed.wrapping_mul(2).wrapping_add(u64::from(exchange.resumed)));
            let writer = begin(&mut dice, starting, &exchange.input);
            let mut held = Held::default();
            for _ in 0..dice.below(60) {
                call_anything(&mut dice, &writer, &mut held, &refused).await?;
            }
            any_end(&mut dice, exchange.resumed).map_err(|failure| *failure)
        }
    })]);
    for seed in 0..RUNS {
        let thread = format!("thread-{seed}");
        let input = serde_json::from_value(told(&thread, &format!("r{seed}"))).unwrap();
        let started = bed.create(request("a", input)).await.unwrap();
        let run_id = started.record.run_id;
        bed.idle().await;
        if so_far(&bed.store, &run_id).await.statuses().last() == Some(&RunStatus::Suspended) {
            *endings.lock().unwrap().entry("suspended").or_default() += 1;
            bed.create(request("a", answers(&thread, &format!("again{seed}"), &["i1"]))).await.unwrap();
        }
        let log = bed.ended(&run_id).await;
        *endings.lock().unwrap().entry(log.ending()).or_default() += 1;
        bed.idle().await;
    }
    let endings = endings.lock().unwrap().clone();
    let refused = refused.load(Ordering::Relaxed);
    // The test is worth something only if every way was gone, and much was refused.
    for ending in ["completed", "failed", "cancelled", "suspended"] {
        assert!(endings.get(ending).is_some_and(|count| *count > 2), "{endings:?}");
    }
    assert!(refused > 300, "{refused} calls were refused");
}

#[tokio::test]
async fn a_driver_that_ends_its_run_in_a_way_that_cannot_be_told_fails_it() {
    let ends = [
        json!({"outcome": {"type": "cancelled"}}),
        json!({"outcome": {"type": "success", "pendingToolCallIds": ["none"]}}),
        json!({"threadId": "another"}),
        json!({"result": null}),
        json!({"exchangeUsage": 5}),
    ];
    for agui in ends {
        let said = agui.as_object().cloned();
        let bed = bed([agent("a", move |_, starting| {
            let agui = said.clone();
            async move {
                starting.begin(None).custom("n", json!(1)).await?;
                Ok(ExchangeEnd::Completed(Completion { agui, ..Completion::default() }))
            }
        })]);
        let log = bed.run("a").await;
        assert_eq!(log.ending(), "failed", "{agui}");
        let (code, message, _) = log.error();
        assert_eq!(code, "INTERNAL_ERROR");
        assert!(message.contains("cannot be told"), "{message}");
    }
}

/// events/lifecycle, "Cancelled runs": a stopped run is never reported as a success, whatever its driver adds.
#[tokio::test]
async fn a_stopped_run_stays_stopped_whatever_its_driver_says_of_it() {
    let bed = bed([agent("a", |_, starting| async move {
        starting.begin(None);
        let agui = json!({"outcome": {"type": "success"}}).as_object().cloned();
        Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui })
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "cancelled");
    assert_eq!(log.last_event()["outcome"], json!({"type": "cancelled"}));
}

#[tokio::test]
async fn what_is_not_a_drivers_to_say_is_refused_and_the_run_goes_on() {
    let bed = bed([agent("a", |_, starting| async move {
        let writer = starting.begin(None);
        let refused = |what: &str, result: Result<(), WriteError>| {
            assert!(matches!(result, Err(WriteError::Refused(_))), "{what}: {result:?}");
        };
        let saying = |agui: Value| Opening { agui: agui.as_object().cloned(), ..Opening::default() };
        let called = saying(json!({"toolCallId": "other"}));
        refused("another id for a call", writer.tool("call_1", "t", called).await.map(drop));
        let claimed = saying(json!({"type": "RUN_FINISHED"}));
        refused("an opening that is another event", writer.message(claimed).await.map(drop));
        let inside = Opening::default().inside(&SegmentId::from("seg_77"));
        refused("a parent that never was", writer.step(inside).await.map(drop));

        let activity = |members: Value| {
            let mut event = json!({"type": "ACTIVITY_DELTA", "messageId": "v", "activityType": "a", "patch": []});
            event.as_object_mut().unwrap().extend(members.as_object().cloned().unwrap());
            event.as_object().cloned()
        };
        let delta = async |attributes| writer.notice(NoticeLevel::Info, "agui.ACTIVITY_DELTA", "", attributes).await;
        refused("somebody's event in a notice of nobody's", delta(activity(json!({"subagentRunId": "s"}))).await);
        refused("a member that AG-UI does not know", delta(activity(json!({"newer": 1}))).await);
        refused("a code of another event", delta(activity(json!({"type": "RAW", "event": 1}))).await);
        refused("a code without its event", delta(None).await);
        delta(activity(json!({}))).await?;

        let counted = Ending {
            usage: serde_json::from_value(json!({"input_tokens": 1, "cached_input_tokens": 2})).ok(),
            ..Ending::completed()
        };
        refused("parts above their total", writer.model(Opening::default()).await?.end(counted).await);
        let agent = writer.agent(Opening::named("scout")).await?;
        let call = writer.tool("call_1", "t", Opening::default()).await?;
        call.result(true, &ToolOutput::Text(String::new())).await?.end(Ending::completed()).await?;
        let theirs = Opening::default().inside(agent.id());
        refused("a call of two agents", writer.tool("call_1", "t", theirs).await.map(drop));
        agent.end(Ending { agui: json!({"metadata": {"a": 1}}).as_object().cloned(), ..Ending::completed() }).await?;
        Ok(fixture::completed())
    })]);
    let log = bed.run("a").await;
    assert_eq!(log.ending(), "completed", "{}", log.dump());
    let kept = log.events.iter().find(|event| event.event_type().as_str() == "SUBAGENT_FINISHED").unwrap();
    assert_eq!(kept.to_value()["metadata"], json!({"a": 1}), "what may be said is told");
}
