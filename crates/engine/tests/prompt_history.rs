//! A prompt in a session is given what the session said before, as it is when the run begins.

#![allow(clippy::unwrap_used)]

mod fixture;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::{
    Bed, agent, answers, bed, bed_on, completed, ended, input, overloaded, patiently, prompt, request, retried, so_far,
    suspended,
};
use runwire_agui::{Message, RunAgentInput};
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, Opening, Question, Suspension, ToolOutput};
use runwire_engine::{
    Action, Agent, ChildRun, Concurrency, CreateRun, Engine, EngineOptions, Exchange, Guarded, Guardrail,
    IdempotencyKey, Judge, PromptHistory, Recovered, ResumeRun, RunRequest, Starting, Without,
};
use runwire_frame::{Data, ErrorCode, RunStatus};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// What an agent was given, exchange by exchange, attempt by attempt.
type Given = Arc<Mutex<Vec<RunAgentInput>>>;

/// Answers each prompt, in the way that its first word asks for. What is to wait ends when it is stopped, or has a permit.
#[derive(Clone)]
struct Answering {
    given: Given,
    permits: Arc<Semaphore>,
}

impl Answering {
    fn new() -> Answering {
        Answering { given: Given::default(), permits: Arc::new(Semaphore::new(0)) }
    }

    fn agent(&self, id: &str) -> Agent {
        let answering = self.clone();
        agent(id, move |exchange, starting| answering.clone().answer(exchange, starting))
    }

    async fn answer(self, exchange: Exchange, starting: Starting) -> Result<ExchangeEnd, Failure> {
        self.given.lock().unwrap().push((*exchange.input).clone());
        let writer = starting.begin(None);
        let prompt = exchange.prompt();
        let message = writer.message(Opening::default()).await?;
        message.text(&format!("Answer to {prompt}")).await?;
        match prompt.split(' ').next().unwrap_or_default() {
            "wait" => {
                tokio::select! {
                    biased;
                    () = exchange.stop.cancelled() => return Ok(fixture::cancelled()),
                    permit = self.permits.acquire() => permit.unwrap().forget(),
                }
                message.text(", at last").await?;
            }
            "retry" if exchange.attempt == 1 => {
                let permit = self.permits.acquire().await.unwrap();
                permit.forget();
                return Err(overloaded());
            }
            "fail" => return Err(Failure::new(ErrorCode::ModelError, "the model is lost")),
            "count" => {
                message.end(Ending::completed()).await?;
                writer.state_snapshot(json!({ "counted": 1 })).await?;
                return Ok(completed());
            }
            "ask" if !exchange.resumed => {
                message.end(Ending::completed()).await?;
                let tool = writer.tool("call_1", "delete", Opening::default()).await?;
                tool.arguments("{}").await?;
                tool.arguments_complete().await?;
                return Ok(suspended(&["i1"]));
            }
            _ => {}
        }
        message.end(Ending::completed()).await?;
        Ok(ExchangeEnd::Completed(Completion::default()))
    }

    fn last(&self) -> RunAgentInput {
        self.given.lock().unwrap().last().unwrap().clone()
    }

    /// How often it was asked something.
    fn asked(&self) -> usize {
        self.given.lock().unwrap().len()
    }
}

/// A prompt in the session `s`.
fn say(agent_id: &str, text: &str) -> CreateRun {
    let request = RunRequest::Prompt { prompt: text.to_owned(), session_id: Some("s".to_owned()) };
    CreateRun { request, ..prompt(agent_id) }
}

/// A prompt in the session `s` and its run, ended.
async fn said(bed: &Bed, agent_id: &str, text: &str) -> String {
    let run_id = created(bed, agent_id, text).await;
    bed.ended(&run_id).await;
    run_id
}

async fn created(bed: &Bed, agent_id: &str, text: &str) -> String {
    bed.create(say(agent_id, text)).await.unwrap().record.run_id
}

/// The messages as lines.
fn lines(messages: &[Message]) -> Vec<String> {
    let line = |message: &Message| match message {
        Message::User(user) => format!("> {}", user.content.text()),
        Message::Assistant(said) => match &said.content {
            Some(content) => content.clone(),
            None => format!("calls {}", message.tool_calls()[0].function.name),
        },
        Message::Tool(tool) => format!("result {:?}", tool.error),
        other => panic!("{other:?}"),
    };
    messages.iter().map(line).collect()
}

fn given(input: &RunAgentInput) -> Vec<String> {
    lines(&input.messages)
}

/// The session as everybody is told it.
async fn session(bed: &Bed) -> Vec<Message> {
    bed.engine.known_session(None, "s", Without::Nothing).await.unwrap().unwrap().history.messages()
}

/// What the first frame of each attempt says that the run was asked.
async fn echoed(bed: &Bed, run_id: &str) -> Vec<Value> {
    let log = so_far(&bed.store, run_id).await;
    let input = |data: &Data| match data {
        Data::RunStart(start) => Some(start.extra["agui"]["input"].clone()),
        _ => None,
    };
    log.frames.iter().filter_map(|frame| input(&frame.data)).collect()
}

#[tokio::test]
async fn a_prompt_is_given_what_its_session_said_before_and_the_state() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a")]);
    said(&bed, "a", "count").await;
    assert_eq!(given(&answering.last()), ["> count"]);
    assert_eq!(answering.last().state, None);
    let before = session(&bed).await;
    let second = said(&bed, "a", "two").await;
    let input = answering.last();
    assert_eq!(given(&input), ["> count", "Answer to count", "> two"]);
    assert_eq!(input.messages[..2], before, "as the session tells it, ids included");
    assert_eq!(input.state, Some(json!({ "counted": 1 })));
    assert_eq!((input.thread_id.as_str(), &input.run_id), ("s", &second));
    assert_eq!(echoed(&bed, &second).await, [serde_json::to_value(&input).unwrap()], "`run.start` keeps it");
    let after = session(&bed).await;
    assert_eq!(lines(&after), ["> count", "Answer to count", "> two", "Answer to two"], "each once");
    said(&bed, "a", "three").await;
    assert_eq!(answering.last().messages[..4], after);
    // Another session is another conversation.
    let elsewhere = RunRequest::Prompt { prompt: "four".to_owned(), session_id: Some("t".to_owned()) };
    let run = bed.create(CreateRun { request: elsewhere, ..prompt("a") }).await.unwrap();
    bed.ended(&run.record.run_id).await;
    assert_eq!(given(&answering.last()), ["> four"]);
}

#[tokio::test]
async fn a_prompt_that_waited_is_given_the_answer_of_the_run_before_it() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a")]);
    let first = created(&bed, "a", "wait one").await;
    bed.reaches(&first, RunStatus::Running).await;
    let second = created(&bed, "a", "two").await;
    let third = created(&bed, "a", "three").await;
    assert_eq!(bed.engine.queued_runs(), 2);
    answering.permits.add_permits(1);
    bed.ended(&second).await;
    bed.ended(&third).await;
    let whole = ["> wait one", "Answer to wait one, at last", "> two", "Answer to two", "> three"];
    let given_to = answering.given.lock().unwrap().clone();
    assert_eq!(given(&given_to[1]), whole[..3]);
    assert_eq!(given(&given_to[2]), whole);
    bed.ended(&first).await;
}

#[tokio::test]
async fn a_prompt_that_supersedes_is_given_what_the_run_before_it_had_said() {
    let answering = Answering::new();
    let mut superseding = answering.agent("a");
    superseding.policy.concurrency = Concurrency::Supersede;
    let bed = bed([superseding]);
    let first = created(&bed, "a", "wait one").await;
    bed.shows(&first, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    said(&bed, "a", "two").await;
    assert_eq!(bed.ended(&first).await.ending(), "cancelled");
    assert_eq!(given(&answering.last()), ["> wait one", "Answer to wait one", "> two"]);
    // Also one that had asked.
    let asking = created(&bed, "a", "ask").await;
    bed.reaches(&asking, RunStatus::Suspended).await;
    said(&bed, "a", "three").await;
    assert_eq!(bed.ended(&asking).await.ending(), "cancelled");
    let all = given(&answering.last());
    assert_eq!(all[4..], ["> ask", "Answer to ask", "calls delete", "result Some(\"not answered\")", "> three"]);
}

#[tokio::test]
async fn what_failed_runs_said_counts_and_what_others_are_saying_does_not() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a"), answering.agent("b")]);
    assert_eq!(bed.ended(&said(&bed, "a", "fail").await).await.ending(), "failed");
    let live = created(&bed, "b", "wait for it").await;
    bed.shows(&live, |frame| matches!(frame.data, Data::TextDelta(_))).await;
    said(&bed, "a", "two").await;
    assert_eq!(given(&answering.last()), ["> fail", "Answer to fail", "> two"]);
    answering.permits.add_permits(1);
    bed.ended(&live).await;
    // Agents of a session hear each other.
    said(&bed, "a", "three").await;
    let all = given(&answering.last());
    assert!(all.contains(&"Answer to wait for it, at last".to_owned()), "{all:?}");
    assert_eq!(all.last().unwrap(), "> three");
}

#[tokio::test]
async fn an_input_that_a_client_made_is_given_as_it_is() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a")]);
    said(&bed, "a", "count").await;
    let mut own = input("s", "mine");
    if let Message::User(user) = &mut own.messages[0] {
        user.id = "mine.prompt".to_owned();
    }
    let run = bed.create(request("a", own.clone())).await.unwrap();
    bed.ended(&run.record.run_id).await;
    assert_eq!(answering.last(), own);
}

#[tokio::test]
async fn an_agent_that_keeps_its_own_memory_is_given_the_prompt_alone() {
    let answering = Answering::new();
    let mut remembering = answering.agent("a");
    remembering.policy.prompt_history = PromptHistory::Nothing;
    let bed = bed([remembering]);
    said(&bed, "a", "count").await;
    said(&bed, "a", "two").await;
    assert_eq!(given(&answering.last()), ["> two"]);
    assert_eq!(answering.last().state, None);
}

#[tokio::test]
async fn a_child_is_given_what_its_parent_says_and_no_more() {
    let answering = Answering::new();
    let parent = agent("parent", |_, starting| async move {
        let writer = starting.begin(None);
        let mut asked = ChildRun::prompt("a", "two");
        asked.request = RunRequest::Prompt { prompt: "two".to_owned(), session_id: Some("s".to_owned()) };
        writer.child(asked).await?.ended().await?;
        Ok(completed())
    });
    let bed = bed([answering.agent("a"), parent]);
    said(&bed, "a", "one").await;
    bed.run("parent").await;
    assert_eq!(given(&answering.last()), ["> two"]);
}

#[tokio::test]
async fn only_runs_of_the_runs_own_principal_are_given() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a")]);
    let by =
        |principal: Option<&str>, text: &str| CreateRun { principal: principal.map(str::to_owned), ..say("a", text) };
    // A server without tokens goes on with anybody's session, and what it did there is nobody's.
    for (principal, text, gets) in [
        (Some("alice"), "one", &["> one"] as &[&str]),
        (None, "two", &["> one", "Answer to one", "> two"]),
        (Some("alice"), "three", &["> one", "Answer to one", "> three"]),
    ] {
        let run = bed.create(by(principal, text)).await.unwrap();
        bed.ended(&run.record.run_id).await;
        assert_eq!(given(&answering.last()), gets, "{principal:?}");
    }
    bed.create(by(Some("bob"), "four")).await.unwrap_err();
}

#[tokio::test]
async fn a_call_that_waits_for_an_answer_is_given_with_a_result_that_says_so_and_the_session_is_not_changed() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a"), answering.agent("b")]);
    let asking = created(&bed, "a", "ask").await;
    bed.reaches(&asking, RunStatus::Suspended).await;
    let before = session(&bed).await;
    said(&bed, "b", "two").await;
    let whole = ["> ask", "Answer to ask", "calls delete", "result Some(\"not answered\")", "> two", "Answer to two"];
    assert_eq!(given(&answering.last()), whole[..5]);
    assert_eq!(session(&bed).await[..3], before, "what stands for a result is in no session");
    said(&bed, "b", "three").await;
    assert_eq!(given(&answering.last())[..6], whole, "once, however often it is asked");

    // When the answer comes, the call has that result and no other.
    let run = bed.create(request("a", answers("s", "answer", &["i1"]))).await.unwrap();
    assert_eq!(run.record.run_id, asking);
    bed.ended(&asking).await;
    let calls = |messages: &[Message]| messages.iter().filter(|message| matches!(message, Message::Tool(_))).count();
    assert_eq!(calls(&session(&bed).await), 0);
}

#[tokio::test]
async fn a_prompt_to_a_session_whose_run_of_the_agent_waits_is_refused_as_before() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a")]);
    let asking = created(&bed, "a", "ask").await;
    let waited = created(&bed, "a", "two").await;
    bed.reaches(&asking, RunStatus::Suspended).await;
    bed.create(say("a", "three")).await.unwrap_err();
    let log = bed.ended(&waited).await;
    assert_eq!((log.ending(), log.notices()[0].0), ("cancelled", "interrupts_unanswered"));
    assert_eq!(answering.asked(), 1, "what was asked before the question does nothing");
}

#[tokio::test]
async fn an_answer_goes_on_from_what_the_prompt_was_given() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a")]);
    said(&bed, "a", "one").await;
    let asking = created(&bed, "a", "ask").await;
    bed.reaches(&asking, RunStatus::Suspended).await;
    let entries = answers("s", "x", &["i1"]).resume.unwrap();
    let resume = ResumeRun { run_id: asking.clone(), answers: entries, exchange_id: None, principal: None };
    patiently(bed.engine.resume(resume)).await.unwrap();
    bed.ended(&asking).await;
    let input = answering.last();
    assert_eq!(input.resume().len(), 1);
    assert_eq!(given(&input), ["> one", "Answer to one", "> ask", "Answer to ask", "calls delete"]);
}

#[tokio::test]
async fn a_further_attempt_is_given_the_same_also_where_the_session_has_gone_on() {
    let answering = Answering::new();
    let bed = bed([retried(2, answering.agent("a")), answering.agent("b")]);
    said(&bed, "b", "one").await;
    let retrying = created(&bed, "a", "retry").await;
    bed.reaches(&retrying, RunStatus::Running).await;
    said(&bed, "b", "meanwhile").await;
    answering.permits.add_permits(1);
    let log = bed.ended(&retrying).await;
    assert_eq!(
        (log.ending(), log.frames.iter().filter(|f| matches!(f.data, Data::RunStart(_))).count()),
        ("completed", 2)
    );
    let given_to = answering.given.lock().unwrap().clone();
    assert_eq!(given(&given_to[1]), ["> one", "Answer to one", "> retry"]);
    assert_eq!(given_to[3], given_to[1]);
    let echoes = echoed(&bed, &retrying).await;
    assert_eq!(echoes, vec![serde_json::to_value(&given_to[1]).unwrap(); 2]);
    let told = log.events.iter().filter(|event| event.event_type().as_str() == "MESSAGES_SNAPSHOT");
    let restated: Vec<Value> = told.map(|event| event.to_value()["messages"].clone()).collect();
    assert_eq!(
        restated,
        [serde_json::to_value(&given_to[1].messages).unwrap()],
        "the attempt restates what it was given"
    );
}

#[tokio::test]
async fn after_a_restart_what_waited_is_given_all_and_what_had_begun_the_same() {
    let answering = Answering::new();
    let agents = || [retried(2, answering.agent("a")), answering.agent("b")];
    let bed = bed(agents());
    said(&bed, "b", "one").await;
    let retrying = created(&bed, "a", "retry").await;
    bed.reaches(&retrying, RunStatus::Running).await;
    let waiting = created(&bed, "a", "two").await;
    bed.engine.shutdown(Duration::ZERO).await;
    let given_first = answering.last();

    let engine = Engine::new(bed.store.clone(), agents(), EngineOptions::default());
    let meanwhile = patiently(engine.create_run(say("b", "meanwhile"))).await.unwrap().record.run_id;
    ended(&bed.store, &meanwhile).await;
    let mut recovered = engine.recover().await.unwrap();
    recovered.sort_by_key(|(run_id, _)| *run_id != retrying);
    assert_eq!(recovered, [(retrying.clone(), Recovered::Retrying), (waiting.clone(), Recovered::Queued)]);
    assert_eq!(ended(&bed.store, &retrying).await.ending(), "completed");
    assert_eq!(ended(&bed.store, &waiting).await.ending(), "completed");
    let given_to = answering.given.lock().unwrap().clone();
    assert_eq!(given_to[3], given_first);
    assert_eq!(given(&given_first), ["> one", "Answer to one", "> retry"]);
    let all = given(&given_to[4]);
    assert_eq!(all[..4], ["> one", "Answer to one", "> retry", "Answer to retry"], "{all:?}");
    assert_eq!(all[4..], ["> meanwhile", "Answer to meanwhile", "> two"], "{all:?}");
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn what_a_guardrail_stopped_is_given_to_nobody_and_keeps_nobody_from_going_on() {
    let answering = Answering::new();
    let mut guarded = answering.agent("a");
    for (on, pattern) in [(Guarded::Input, "forbidden"), (Guarded::Output, "Answer to secret")] {
        let judge = Judge::Pattern(pattern.parse().unwrap());
        let rail = Guardrail { name: pattern.to_owned(), on: vec![on], judge, action: Action::Stop };
        guarded.policy.guardrails.push(rail);
    }
    let bed = bed([guarded, answering.agent("b")]);
    said(&bed, "a", "one").await;
    for stopped in ["forbidden", "secret"] {
        let log = bed.ended(&said(&bed, "a", stopped).await).await;
        assert_eq!(log.failure_class(), Some("GUARDRAIL_BLOCKED"), "{stopped}");
    }
    for agent in ["a", "b"] {
        said(&bed, agent, "two").await;
        let all = given(&answering.last());
        assert_eq!(all[..3], ["> one", "Answer to one", "> two"], "{agent}: {all:?}");
    }
    assert!(lines(&session(&bed).await).contains(&"> forbidden".to_owned()), "the session tells what was said");
}

/// A call that was made stands with its result or not at all: an agent that is told that nobody had answered may make it
/// once more.
#[tokio::test]
async fn of_a_run_that_a_guardrail_stopped_behind_an_answer_no_exchange_is_given() {
    let answering = Answering::new();
    let mut asking = agent("asking", |exchange, starting| async move {
        let writer = starting.begin(None);
        if !exchange.resumed {
            let tool = writer.tool("call_1", "delete", Opening::default()).await?;
            tool.arguments("{}").await?;
            tool.arguments_complete().await?;
            return Ok(ExchangeEnd::Suspended(Suspension::asking(Question::approval("call_1"), [])));
        }
        if let Some(tool) = writer.waiting_tool("call_1").await? {
            let output = ToolOutput::Text("deleted".to_owned());
            tool.result(true, &output).await?.end(Ending::completed()).await?;
        }
        let message = writer.message(Opening::default()).await?;
        message.text("It held a secret.").await?;
        message.end(Ending::completed()).await?;
        Ok(completed())
    });
    let judge = Judge::Pattern("secret".parse().unwrap());
    let rail = Guardrail { name: "secret".to_owned(), on: vec![Guarded::Output], judge, action: Action::Stop };
    asking.policy.guardrails.push(rail);
    let bed = bed([asking, answering.agent("b")]);
    said(&bed, "b", "one").await;
    let run_id = created(&bed, "asking", "delete it").await;
    bed.reaches(&run_id, RunStatus::Suspended).await;
    bed.idle().await;
    let entries = answers("s", "x", &["approval_call_1"]).resume.unwrap();
    let resume = ResumeRun { run_id: run_id.clone(), answers: entries, exchange_id: None, principal: None };
    patiently(bed.engine.resume(resume)).await.unwrap();
    assert_eq!(bed.ended(&run_id).await.failure_class(), Some("GUARDRAIL_BLOCKED"));
    said(&bed, "b", "two").await;
    assert_eq!(given(&answering.last()), ["> one", "Answer to one", "> two"]);
    let told = lines(&session(&bed).await);
    assert_eq!(told[2..5], ["> delete it", "calls delete", "result None"], "the session tells what was done");
}

#[tokio::test]
async fn what_does_not_fit_fails_the_run_and_nothing_of_it_is_left_out() {
    let answering = Answering::new();
    let mut bounded = answering.agent("a");
    bounded.policy.prompt_history = PromptHistory::Session { max_bytes: 600 };
    let bed = bed([bounded, answering.agent("b")]);
    said(&bed, "a", "one").await;
    said(&bed, "a", "two").await;
    assert_eq!(given(&answering.last()).len(), 3);
    said(&bed, "b", &"x".repeat(300)).await;
    let asked = answering.asked();
    let log = bed.ended(&said(&bed, "a", "three").await).await;
    let (code, message, retryable) = log.error();
    assert_eq!((log.ending(), code, retryable), ("failed", "CONTEXT_OVERFLOW", false));
    for says in ["session `s`", "at most 600", "`max_history_bytes`", "`input`"] {
        assert!(message.contains(says), "{message}");
    }
    assert_eq!(answering.asked(), asked, "the agent was not asked");
    let input = echoed(&bed, &log.run_id).await.remove(0);
    assert_eq!(input["messages"].as_array().unwrap().len(), 1, "what was asked is told");
    // What is no prompt's is bounded by whoever takes it.
    let run = bed.create(request("a", input_of(700))).await.unwrap();
    assert_eq!(bed.ended(&run.record.run_id).await.ending(), "completed");
}

fn input_of(bytes: usize) -> RunAgentInput {
    let mut input = input("s", "large");
    input.forwarded_props = Some("x".repeat(bytes).into());
    input
}

#[tokio::test]
async fn a_state_that_nests_deeper_than_an_input_may_fails_the_run() {
    let answering = Answering::new();
    // Patches make a state deeper than any value that can be sent.
    let nesting = agent("nests", |_, starting| async move {
        let writer = starting.begin(None);
        let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        writer.state_snapshot(nested(90)).await?;
        writer.state_delta(json!([{ "op": "add", "path": "/a".repeat(91), "value": nested(30) }])).await?;
        Ok(completed())
    });
    let bed = bed([nesting, answering.agent("a")]);
    said(&bed, "nests", "one").await;
    let log = bed.ended(&said(&bed, "a", "two").await).await;
    let (code, message, _) = log.error();
    assert_eq!((code, answering.asked()), ("CONTEXT_OVERFLOW", 0));
    assert!(message.contains("nests") && message.contains("at most 120"), "{message}");
}

#[tokio::test]
async fn a_key_names_what_was_asked_whatever_the_session_has_said_since() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a")]);
    said(&bed, "a", "one").await;
    let key = || IdempotencyKey::new("k").unwrap();
    let first = patiently(bed.engine.create_run_once(say("a", "two"), key())).await.unwrap();
    bed.ended(&first.record.run_id).await;
    said(&bed, "a", "three").await;
    let again = patiently(bed.engine.create_run_once(say("a", "two"), key())).await.unwrap();
    assert!(again.existing && again.record.run_id == first.record.run_id);
    assert_eq!(answering.asked(), 3);
}

#[tokio::test]
async fn a_run_that_is_stopped_before_its_turn_says_what_it_was_asked() {
    let answering = Answering::new();
    let bed = bed([answering.agent("a")]);
    let first = created(&bed, "a", "wait one").await;
    bed.reaches(&first, RunStatus::Running).await;
    let second = created(&bed, "a", "two").await;
    bed.engine.cancel(&second).await.unwrap();
    assert_eq!(bed.ended(&second).await.ending(), "cancelled");
    let input = echoed(&bed, &second).await.remove(0);
    assert_eq!(input["messages"].as_array().unwrap().len(), 1);
    answering.permits.add_permits(1);
    bed.ended(&first).await;
    // It stands in the session like whatever a user said.
    said(&bed, "a", "three").await;
    assert_eq!(given(&answering.last())[2..], ["> two", "> three"]);
    // A stop at once, while what was said is being read, is not lost either.
    let bed = bed_on([answering.agent("a")], EngineOptions::default());
    said(&bed, "a", "one").await;
    let stopped = created(&bed, "a", "wait two").await;
    bed.engine.cancel(&stopped).await.unwrap();
    assert_eq!(bed.ended(&stopped).await.ending(), "cancelled");
}
