//! What is kept of model calls, and what is taken out of what is kept.

use runwire_engine::{CreateRunError, PayloadPolicy, Redaction};
use runwire_frame::SegmentKind;

use super::*;

const SECRET: &str = "hunter2hunter2";

/// An agent with this policy.
fn keeping(model: &Scripted, options: AgentOptions, payloads: PayloadPolicy) -> Bed {
    let mut agent = driven_by("a", ModelDriver::new("scripted", model.clone(), options));
    agent.policy.payloads = payloads;
    bed([agent])
}

fn calls_kept() -> PayloadPolicy {
    PayloadPolicy { model_calls: true, ..PayloadPolicy::default() }
}

/// Takes the values of members called `password` out.
fn without_passwords(payloads: PayloadPolicy) -> PayloadPolicy {
    PayloadPolicy { redaction: Redaction::new(Vec::new(), ["password".to_owned()], []).unwrap(), ..payloads }
}

/// What is kept of each model call of the run, in order.
async fn kept(bed: &Bed, log: &Log) -> Vec<Option<Value>> {
    let mut kept = Vec::new();
    for frame in &log.frames {
        if let Data::SegmentStart(start) = &frame.data
            && start.kind == SegmentKind::Model
        {
            let segment = frame.segment_id.as_ref().unwrap();
            let payload = bed.store.payload(&log.run_id, segment.as_str()).await.unwrap();
            kept.push(payload.map(|payload| {
                assert_eq!(payload.content_type, "application/json");
                serde_json::from_slice(&payload.bytes).unwrap()
            }));
        }
    }
    kept
}

fn secret_call() -> Vec<Piece> {
    let mut pieces = vec![Ok(ModelEvent::Call { index: 0, id: Some("c1".to_owned()), name: "look".to_owned() })];
    // In pieces, of which none holds all of what is to be found.
    for delta in ["{\"pass", "word\":\"hunter2", "hunter2\",\"q\":1}"] {
        pieces.push(Ok(ModelEvent::Arguments { index: 0, delta: delta.to_owned() }));
    }
    pieces.push(finished("tool_calls"));
    pieces
}

#[tokio::test]
async fn what_a_model_was_asked_and_answered_is_kept_where_the_agent_says_so() {
    let answer = || {
        let usage = CallUsage { input: Some(7), output: Some(2), ..CallUsage::default() };
        let thinking = Ok(ModelEvent::Thinking("hm".to_owned()));
        [vec![thinking, text("Hello "), text("you"), finished("stop"), Ok(ModelEvent::Usage(usage))]]
    };
    let options = || AgentOptions { system: Some("Be kind".to_owned()), ..AgentOptions::new("m") };
    let bed = keeping(&Scripted::answering(answer()), options(), calls_kept());
    let log = run(&bed, input("r", json!({}))).await;
    let [Some(call)] = &kept(&bed, &log).await[..] else { panic!("{}", log.dump()) };
    assert_eq!(call["model"], "scripted/m");
    assert_eq!(call["request"]["body"]["system"], "Be kind");
    assert_eq!(call["request"]["truncated"], false);
    let answered = &call["response"]["body"];
    assert_eq!((&answered["text"], &answered["reasoning"]), (&json!("Hello you"), &json!("hm")));
    assert_eq!((&answered["finish_reason"], &answered["usage"]["total_tokens"]), (&json!("stop"), &json!(9)));

    let bed = keeping(&Scripted::answering(answer()), options(), PayloadPolicy::default());
    let log = run(&bed, input("r", json!({}))).await;
    assert_eq!(kept(&bed, &log).await, [None], "by default nothing is");
}

#[tokio::test]
async fn each_call_has_its_own_with_the_calls_of_tools_and_with_why_it_failed() {
    let busy = vec![Err(CallError::passing(ErrorCode::RateLimited, "slow down"))];
    let (look, _) = tool("look", Approval::Never);
    let model = Scripted::answering([busy, calls(&[("c1", "look", "{\"q\":1}")]), says("Done")]);
    let options = AgentOptions { fallback_models: vec!["spare".to_owned()], ..with(vec![look]) };
    let bed = keeping(&model, options, calls_kept());
    let log = run(&bed, input("r", json!({}))).await;
    let [Some(failed), Some(called), Some(_)] = &kept(&bed, &log).await[..] else { panic!("{}", log.dump()) };
    let error = json!({ "error": { "code": "RATE_LIMITED", "message": "slow down" } });
    assert_eq!((&failed["model"], &failed["response"]["body"]), (&json!("scripted/m"), &error));
    assert_eq!(called["model"], "scripted/spare");
    let call = json!([{ "id": "c1", "name": "look", "arguments": "{\"q\":1}" }]);
    assert_eq!(called["response"]["body"]["tool_calls"], call);
}

#[tokio::test]
async fn the_request_of_a_call_that_is_never_answered_is_there() {
    let model = Scripted { hangs: true, ..Scripted::answering([vec![text("Hel")]]) };
    let bed = keeping(&model, AgentOptions::new("m"), calls_kept());
    let run_id = bed.create(request("a", input("r", json!({})))).await.unwrap().record.run_id;
    bed.shows(&run_id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    bed.engine.cancel(&run_id).await.unwrap();
    let log = bed.ended(&run_id).await;
    let [Some(call)] = &kept(&bed, &log).await[..] else { panic!("{}", log.dump()) };
    assert_eq!((&call["request"]["body"]["model"], &call["response"]), (&json!("m"), &Value::Null));
}

#[tokio::test]
async fn what_is_taken_out_is_nowhere_and_the_tool_and_the_model_have_it() {
    let (mut look, looked) = tool("look", Approval::Never);
    let whole = json!({ "password": SECRET, "more": "x".repeat(4000) }).to_string();
    look.returns = ToolReturn::worked(ToolOutput::Text(whole));
    let model = Scripted::answering([secret_call(), says("Done")]);
    let bed = keeping(&model, with(vec![look]), without_passwords(calls_kept()));
    let log = run(&bed, input("r", json!({}))).await;
    assert_eq!(looked.lock().unwrap().clone(), [format!("{{\"password\":\"{SECRET}\",\"q\":1}}")]);
    assert!(format!("{:?}", model.asked()[1].1.turns).contains(SECRET), "the model goes on from the real result");
    assert!(!log.dump().contains(SECRET), "{}", log.dump());
    let arguments = log.frames.iter().find_map(|frame| match &frame.data {
        Data::ToolCall(call) => call.arguments.clone(),
        _ => None,
    });
    assert_eq!(arguments.as_deref(), Some(r#"{"password":"[redacted]","q":1}"#));
    let result = log.frames.iter().find(|frame| matches!(frame.data, Data::ToolResult(_))).unwrap();
    let segment = result.segment_id.as_ref().unwrap();
    let payload = bed.store.payload(&log.run_id, segment.as_str()).await.unwrap().unwrap();
    let Data::ToolResult(result) = &result.data else { panic!() };
    assert!(result.truncated && result.bytes == payload.bytes.len() as u64);
    let payload = String::from_utf8(payload.bytes.to_vec()).unwrap();
    assert!(payload.starts_with(r#"{"password":"[redacted]""#), "{payload}");
    let calls = kept(&bed, &log).await;
    assert!(!format!("{calls:?}").contains(SECRET) && calls.len() == 2, "{calls:?}");
}

#[tokio::test]
async fn the_failure_of_a_tool_is_told_without_what_is_taken_out() {
    let (mut look, _) = tool("look", Approval::Never);
    look.returns = ToolReturn::failed(format!("no such key: {SECRET}"));
    look.required = true;
    let model = Scripted::answering([calls(&[("c1", "look", "{}")])]);
    let redaction = Redaction::new(Vec::new(), [], [SECRET.to_owned()]).unwrap();
    let bed = keeping(&model, with(vec![look]), PayloadPolicy { redaction, ..calls_kept() });
    let log = run(&bed, input("r", json!({}))).await;
    assert_eq!(end(&log), (EndStatus::Failed, Some("TOOL_ERROR")));
    assert!(log.dump().contains("no such key: [redacted]") && !log.dump().contains(SECRET), "{}", log.dump());
}

#[tokio::test]
async fn a_call_of_which_something_was_taken_out_can_be_allowed_only_with_its_arguments_given_again() {
    let (pay, paid) = tool("look", Approval::Always);
    let model = Scripted::answering([secret_call(), says("Done")]);
    let bed = keeping(&model, with(vec![pay]), without_passwords(PayloadPolicy::default()));
    let run_id = bed.create(request("a", input("r1", json!({})))).await.unwrap().record.run_id;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    let so_far = fixture::so_far(&bed.store, &run_id).await;
    assert!(!so_far.dump().contains(SECRET), "{}", so_far.dump());
    let Some(RunFinishedOutcome::Interrupt { interrupts }) = outcome(&so_far) else { panic!("{}", so_far.dump()) };
    let metadata = interrupts[0].metadata.clone().unwrap();
    assert_eq!(metadata["redacted"], true);
    assert_eq!(metadata["arguments"], json!({ "password": "[redacted]", "q": 1 }));
    let answer = |run: &str, payload: Value| {
        let entry = json!({ "interruptId": interrupts[0].id, "status": "resolved", "payload": payload });
        request("a", input(run, json!({ "resume": [entry] })))
    };
    let refused = bed.create(answer("r2", json!({ "approved": true }))).await;
    assert!(matches!(refused, Err(CreateRunError::AnswerBreaksSchema { .. })), "{refused:?}");
    assert_eq!(paid.lock().unwrap().len(), 0);
    let given = json!({ "approved": true, "editedArgs": { "password": "another", "q": 1 } });
    bed.create(answer("r3", given)).await.unwrap();
    assert_eq!(end(&bed.ended(&run_id).await), (EndStatus::Completed, None));
    assert_eq!(paid.lock().unwrap().clone(), [r#"{"password":"another","q":1}"#]);
}
