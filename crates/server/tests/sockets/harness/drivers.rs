//! Agents for tests.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, Opening};
use runwire_engine::{Driver, Exchange, RunWriter, Starting};
use runwire_frame::NoticeLevel;
use tokio::sync::{Mutex, mpsc};

/// An agent that does what a closure does.
pub struct Script<F>(pub F);

impl<F, Fut> Driver for Script<F>
where
    F: Fn(Exchange, RunWriter) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ExchangeEnd, Failure>> + Send + 'static,
{
    fn kind(&self) -> &'static str {
        "script"
    }

    fn execute(&self, exchange: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        Box::pin((self.0)(exchange, starting.begin(None)))
    }
}

enum Step {
    /// Write this as one frame.
    Say(String),
    /// Write this as a message that is closed.
    Text(String),
    /// Write this into a message that is left open.
    Begin(String),
    End(Box<Result<ExchangeEnd, Failure>>),
}

/// The reins of the one run that an agent from [`stepped`] executes. Dropping them completes it.
pub struct Steps(mpsc::UnboundedSender<Step>);

impl Steps {
    /// Has the agent write one frame, a notice that says so.
    pub fn say(&self, text: impl Into<String>) {
        self.0.send(Step::Say(text.into())).expect("the agent runs until it is told to end");
    }

    /// Has the agent write a whole message.
    pub fn text(&self, text: impl Into<String>) {
        self.0.send(Step::Text(text.into())).expect("the agent runs until it is told to end");
    }

    /// Has the agent begin a message and leave it open.
    pub fn begin(&self, text: impl Into<String>) {
        self.0.send(Step::Begin(text.into())).expect("the agent runs until it is told to end");
    }

    /// Has the agent complete its run.
    pub fn complete(&self) {
        self.end(Ok(ExchangeEnd::Completed(Completion::default())));
    }

    /// Has the agent end its exchange so.
    pub fn end(&self, end: Result<ExchangeEnd, Failure>) {
        self.0.send(Step::End(Box::new(end))).expect("the agent runs until it is told to end");
    }
}

/// An agent that does nothing by itself. It executes one run at a time.
pub fn stepped() -> (Steps, impl Driver) {
    let (steps, taken) = mpsc::unbounded_channel();
    let taken = Arc::new(Mutex::new(taken));
    let driver = Script(move |exchange: Exchange, writer: RunWriter| {
        let taken = taken.clone();
        async move {
            let mut taken = taken.lock().await;
            loop {
                // A run that was stopped takes no step from the one after it.
                let step = tokio::select! {
                    biased;
                    () = exchange.stop.cancelled() => {
                        return Ok(ExchangeEnd::Cancelled { usage: Vec::new(), agui: None });
                    }
                    step = taken.recv() => step,
                };
                match step {
                    Some(Step::Say(text)) => writer.notice(NoticeLevel::Info, "said", &text, None).await?,
                    Some(Step::Text(text)) => {
                        let message = writer.message(Opening::default()).await?;
                        message.text(&text).await?;
                        message.end(Ending::completed()).await?;
                    }
                    Some(Step::Begin(text)) => writer.message(Opening::default()).await?.text(&text).await?,
                    Some(Step::End(end)) => return *end,
                    None => return Ok(ExchangeEnd::Completed(Completion::default())),
                }
            }
        }
    });
    (Steps(steps), driver)
}
