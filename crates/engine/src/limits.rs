//! What a run may use before it is stopped on purpose: time, model calls, tokens, money.
//!
//! A limit is looked at before something is begun that costs: the exchange itself, a model call, a tool call. What was
//! begun within the limit is finished, because what it costs is not known before. Only time stops what is under way.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use runwire_bridge::{LogState, Pricing, Recorder};
use runwire_frame::{ErrorCode, Timestamp, Usage};
use runwire_store::{ReadError, RunFilter, Store};
use rust_decimal::Decimal;
use serde_json::json;

use crate::child::CHILD;
use crate::clock::now;
use crate::prices::Prices;

/// The limits of an agent's runs; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How long a run may be executed, without the time in which it waits for an answer or for its next attempt.
    pub duration: Option<Duration>,
    /// How many model calls a run may make. An upstream agent's own are not known here.
    pub model_calls: Option<u64>,
    /// How many tokens a run may use, all models together.
    pub tokens: Option<u64>,
    /// What a run may cost, in the currency of the prices. What has no price is not counted.
    pub cost: Option<Decimal>,
    /// What the runs of a session may cost together.
    pub session_cost: Option<Decimal>,
    /// What the agent's runs that end on one day (UTC) may cost together.
    pub day_cost: Option<Decimal>,
    /// Whether what the run's children have used, and theirs, counts against `tokens` and `cost`, as soon as they have ended. The
    /// other limits count each run for itself. Whatever counts, each run's account is its own.
    pub with_children: bool,
}

/// What had been spent before a run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// By the runs of the same session that have ended.
    pub session: Decimal,
    /// By the agent's runs that have ended today.
    pub day: Decimal,
}

/// Something that costs, and is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    ModelCall,
    ToolCall,
    ChildRun,
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub code: ErrorCode,
    pub message: String,
    /// Whether the same request may go through later.
    pub retryable: bool,
}

/// What one run may use, and what there was before it.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    limits: Limits,
    prices: Option<Arc<Prices>>,
    /// Read once, before the exchange begins. Runs that end beside it are not seen.
    spent: OnceLock<Spent>,
    /// What children have used that have ended; empty where they do not count.
    children: Mutex<Vec<Usage>>,
    /// Who reads that: a later reader does not give way to an earlier one.
    reading: tokio::sync::Mutex<()>,
}

impl Budget {
    pub(crate) fn new(limits: Limits, prices: Option<Arc<Prices>>) -> Budget {
        Budget { limits, prices, spent: OnceLock::new(), children: Mutex::default(), reading: Default::default() }
    }

    /// Whether what children use counts.
    pub(crate) fn counts_children(&self) -> bool {
        self.limits.with_children && (self.limits.tokens.is_some() || self.limits.cost.is_some())
    }

    /// Reads what the run's children have used so far, and theirs, if it counts.
    pub(crate) async fn read_children(&self, store: &Store, run_id: &str) -> Result<(), ReadError> {
        if !self.counts_children() {
            return Ok(());
        }
        let _turn = self.reading.lock().await;
        let mut used = Vec::new();
        let mut parents = vec![run_id.to_owned()];
        while let Some(parent_run_id) = parents.pop() {
            let mut filter = RunFilter { parent_run_id: Some(parent_run_id), limit: 1000, ..RunFilter::default() };
            loop {
                let page = store.runs(filter.clone()).await?;
                let Some(last) = page.last() else { break };
                filter.before = Some(last.cursor());
                for run in page.into_iter().filter(|run| run.trigger_kind == CHILD) {
                    let usage = run.usage.map(serde_json::from_value::<Vec<Usage>>);
                    // Usage that is none was not written by this server; verify-log is where that is told.
                    used.extend(usage.and_then(Result::ok).unwrap_or_default());
                    parents.push(run.run_id);
                }
            }
        }
        *self.children.lock().unwrap_or_else(PoisonError::into_inner) = used;
        Ok(())
    }

    /// Reads what was spent before, as far as a limit asks for it.
    pub(crate) async fn read_spent(&self, store: &Store, agent_id: &str, session_id: &str) -> Result<(), ReadError> {
        let Some(prices) = &self.prices else { return Ok(()) };
        let mut spent = Spent::default();
        if self.limits.session_cost.is_some() {
            spent.session = prices.sum(&store.costs_of_session(session_id).await?);
        }
        if self.limits.day_cost.is_some() {
            spent.day = prices.sum(&store.costs_since(agent_id, day_of(now())).await?);
        }
        let _ = self.spent.set(spent);
        Ok(())
    }

    pub(crate) fn pricing(&self) -> Option<Arc<dyn Pricing>> {
        self.prices.clone().map(|prices| prices as Arc<dyn Pricing>)
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        self.limits.duration
    }

    pub(crate) fn duration_reached(&self) -> Reached {
        let limit = self.limits.duration.unwrap_or_default();
        Reached {
            code: ErrorCode::Timeout,
            message: format!("the run was executed for its limit of {limit:?}"),
            retryable: false,
        }
    }

    /// The limit that keeps this from beginning.
    pub(crate) fn reached(&self, state: &LogState, what: Begun) -> Option<Reached> {
        if let (Begun::ModelCall, Some(limit)) = (what, self.limits.model_calls)
            && state.model_calls() >= limit
        {
            return Some(used_up(format!("the run made {limit} model calls, which is its limit"), false));
        }
        self.used_up(state)
    }

    /// The limit on what was used so far that keeps anything from beginning.
    pub(crate) fn used_up(&self, state: &LogState) -> Option<Reached> {
        let Limits { tokens, cost, session_cost, day_cost, .. } = &self.limits;
        if tokens.is_none() && cost.is_none() && session_cost.is_none() && day_cost.is_none() {
            return None;
        }
        let usage = state.usage();
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let run = if children.is_empty() { "the run" } else { "the run, with those that it started," };
        if let Some(limit) = *tokens {
            let used = usage.iter().chain(&children).map(tokens_of).fold(0, u64::saturating_add);
            if used >= limit {
                let message = format!("{run} used {used} tokens, and its limit is {limit}");
                return Some(used_up(message, false));
            }
        }
        let prices = self.prices.as_ref()?;
        let amount = |usage: &[Usage]| {
            usage.iter().filter_map(|usage| prices.amount(usage)).fold(Decimal::ZERO, Decimal::saturating_add)
        };
        let (own, of_children) = (amount(&usage), amount(&children));
        let currency = prices.currency();
        let before = self.spent.get().copied().unwrap_or_default();
        for (limit, earlier, whose, later) in [
            (cost, of_children, run, false),
            (session_cost, before.session, "the session", false),
            (day_cost, before.day, "the agent's runs of today", true),
        ] {
            let spent = earlier.saturating_add(own);
            if let Some(limit) = limit
                && spent >= *limit
            {
                let (spent, limit) = (spent.normalize(), limit.normalize());
                let message = format!("{whose} cost {spent} {currency}, and the limit is {limit} {currency}");
                return Some(used_up(message, later));
            }
        }
        None
    }
}

impl Reached {
    /// Says in the log that the run is stopped, and why. AG-UI has no word for it beside `cancelled`, so its clients get
    /// an event of this server's own.
    pub(crate) fn tell(&self, recorder: &mut Recorder, now: Timestamp) {
        recorder.error(now, self.code, self.message.clone(), self.retryable);
        recorder.custom(now, "runwire.limit", json!({ "code": self.code.as_str(), "message": self.message }));
    }
}

/// The beginning of the day (UTC) of that instant, in milliseconds since the Unix epoch.
fn day_of(now: Timestamp) -> i64 {
    const DAY: i64 = 86_400_000;
    now.unix_millis().div_euclid(DAY) * DAY
}

fn used_up(message: String, retryable: bool) -> Reached {
    Reached { code: ErrorCode::BudgetExceeded, message, retryable }
}

fn tokens_of(usage: &Usage) -> u64 {
    let halves = usage.input_tokens.unwrap_or(0).saturating_add(usage.output_tokens.unwrap_or(0));
    usage.total_tokens.unwrap_or(halves)
}
