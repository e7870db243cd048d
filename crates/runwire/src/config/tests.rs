//! What a configuration file may say, and what it is told where it may not.

#![allow(clippy::unwrap_used)]

use runwire_engine::{MAX_HISTORY_BYTES, OnDeadline, PromptHistory, WaitRule};

use super::*;

fn settings(text: &str) -> anyhow::Result<Settings> {
    // As `main` does it; only the first of several can be installed, and it does not matter which that is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let flags = ListenArgs { listen: None, store: None, sync: None };
    Settings::from_file(parse(text)?, &flags)
}

fn error(text: &str) -> String {
    match settings(text) {
        Ok(_) => panic!("this was taken:\n{text}"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn how_runs_wait_is_configured_for_each_agent() {
    let waiting = |keys: &str| {
        let settings = settings(&format!("[agents.a]\ndriver = \"demo\"\n{keys}"))?;
        Ok::<_, anyhow::Error>(settings.agents[0].policy.waiting.clone())
    };
    assert_eq!(waiting("").unwrap(), WaitRule::default());
    let rule = waiting("answer_within = \"2h\"\non_deadline = \"answer\"\ndeadline_answer = { approved = false }");
    let answer = OnDeadline::Answer(serde_json::json!({ "approved": false }));
    assert_eq!(rule.unwrap(), WaitRule { answer_within: Some(Duration::from_secs(7200)), on_deadline: answer });
    assert_eq!(waiting("on_deadline = \"fail\"").unwrap().on_deadline, OnDeadline::Fail);
    for (keys, says) in [
        ("on_deadline = \"answer\"", "does not say with what"),
        ("deadline_answer = 1", "only where `on_deadline` is `answer`"),
        ("answer_within = \"0s\"", "nobody could answer"),
        ("on_deadlin = \"deny\"", "did you mean `on_deadline`?"),
    ] {
        let error = format!("{:#}", waiting(keys).unwrap_err());
        assert!(error.contains(says), "{keys}: {error}");
    }
    let named = settings("[[tokens]]\nname = \"deadline\"\ntoken = \"x\"").err().unwrap();
    assert!(format!("{named:#}").contains("take another"));
}

#[test]
fn what_stands_in_front_of_a_prompt_is_configured_for_each_agent() {
    let history = |keys: &str| {
        let settings = settings(&format!("[agents.a]\ndriver = \"demo\"\n{keys}"))?;
        Ok::<_, anyhow::Error>(settings.agents[0].policy.prompt_history)
    };
    assert_eq!(history("").unwrap(), PromptHistory::Session { max_bytes: MAX_HISTORY_BYTES });
    assert_eq!(history("max_history_bytes = \"1MiB\"").unwrap(), PromptHistory::Session { max_bytes: 1 << 20 });
    assert_eq!(history("prompt_history = \"none\"").unwrap(), PromptHistory::Nothing);
    for (keys, says) in [
        ("max_history_bytes = \"0B\"", "at least 1B"),
        ("max_history_bytes = \"17MiB\"", "at most 16MiB"),
        ("prompt_history = \"none\"\nmax_history_bytes = \"1MiB\"", "only where `prompt_history` is `session`"),
        ("promt_history = \"none\"", "did you mean `prompt_history`?"),
        ("prompt_history = \"all\"", "`session`"),
    ] {
        let error = format!("{:#}", history(keys).unwrap_err());
        assert!(error.contains(says), "{keys}: {error}");
    }
}

#[test]
fn an_empty_file_serves_the_demo_agent_on_loopback() {
    let settings = settings("").unwrap();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:7171");
    assert_eq!(settings.store, Path::new("runwire.db"));
    assert_eq!(settings.agents.len(), 1);
    assert_eq!(settings.agents[0].id, "demo");
    assert!(settings.tokens.is_none());
}

#[test]
fn flags_win_over_the_file() {
    let file = parse("listen = \"127.0.0.1:1\"\nstore = \"file.db\"\nsync = \"full\"").unwrap();
    let flags = ListenArgs { listen: None, store: Some("flag.db".into()), sync: None };
    let settings = Settings::from_file(file, &flags).unwrap();
    assert_eq!(settings.listen.port(), 1);
    assert_eq!(settings.store, Path::new("flag.db"));
    assert_eq!(settings.sync, SyncMode::Full);
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest_known_one() {
    for (text, key, nearest) in [
        ("lisen = \"127.0.0.1:1\"", "`lisen`", "`listen`"),
        ("[agents.a]\ndriver = \"agui\"\nulr = \"http://x/\"", "`agents.a.ulr`", "`url`"),
        ("[agents.a]\ndriver = \"demo\"\npacee = \"1s\"", "`agents.a.pacee`", "`pace`"),
        ("[agents.a]\ndriver = \"agiu\"", "`agiu`", "`agui`"),
        ("[lanes.slow]\nlimits = 2", "`lanes.slow.limits`", "`limit`"),
        ("[agents.a]\ndriver = \"demo\"\nretry = { attempts = 2 }", "`agents.a.retry.attempts`", "`max_attempts`"),
        ("[agents.a]\ndriver = \"exec\"\ncomand = [\"x\"]", "`agents.a.comand`", "`command`"),
        ("[[tokens]]\nname = \"a\"\ntokn = \"t\"", "`tokens[0].tokn`", "`token`"),
        ("[agents.a]\ndriver = \"openai\"\nmodle = \"m\"", "`agents.a.modle`", "`model`"),
        ("[agents.a]\ndriver = \"demo\"\npayloads = { redcat = [] }", "`agents.a.payloads.redcat`", "`redact`"),
        ("[agents.a]\ndriver = \"openai\"\n[agents.a.tools.t]\nulr = \"x\"", "`agents.a.tools.t.ulr`", "`url`"),
        ("[agents.a]\ndriver = \"openai\"\n[agents.a.agents.t]\nagnt = \"x\"", "`agents.a.agents.t.agnt`", "`agent`"),
        (
            "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\nagents.t = { agent = \"serch\", description = \"d\" }\n\
             [agents.search]\ndriver = \"demo\"",
            "agents.a.agents.t.agent: there is no agent `serch`",
            "`search`",
        ),
    ] {
        let error = error(text);
        assert!(error.contains(key) && error.contains(nearest), "{error}");
    }
    assert!(error("[retention]\nmax_ages = \"1d\"").contains("`max_age`"));
    assert!(
        error("[agents.a]\ndriver = \"demo\"\nretention = { tombstones = \"1d\" }").contains("a.retention.tombstones`")
    );
    assert!(error("[[prices.models]]\nmodle = \"m\"").contains("`prices.models[0].modle` (did you mean `model`?)"));
    assert!(error("[agents.a]\ndriver = \"demo\"\nlimits = { token = 1 }").contains("(did you mean `tokens`?)"));
    assert!(error("[agents.a]\ndriver = \"demo\"\nurl = \"http://x/\"").contains("`agents.a.url`"));
}

/// An agent with another as the tool `t`, of which this is said.
fn as_tool(keys: &str) -> String {
    format!("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\n[agents.a.agents.t]\n{keys}")
}

#[test]
fn an_agent_can_be_the_tool_of_another_and_of_itself() {
    let whole = "agent = \"a\"\ndescription = \"d\"\ntimeout = \"1m\"\napproval = \"always\"\nlane = \"default\"";
    let settings = settings(&format!("max_child_depth = 2\n{}", as_tool(whole))).unwrap();
    assert_eq!(settings.max_child_depth, 2);
    let tools = settings.agents[0].driver.capabilities().tools.unwrap().items.unwrap();
    assert_eq!((tools[0].name.as_str(), tools[0].description.as_str()), ("t", "d"));
}

#[test]
fn what_cannot_work_is_refused_with_its_place() {
    for (text, says) in [
        ("listen = \"0.0.0.0:80\"", "tokens"),
        ("listen = \"here\"", "listen"),
        ("cancel_grace = \"soon\"", "`soon`"),
        ("[retention]\nmax_bytes = \"much\"", "`much`"),
        ("[retention]\nmax_runs = -1", "max_runs"),
        ("stream_max_age = \"0s\"", "stream_max_age"),
        ("orphan_check = \"0s\"", "orphan_check"),
        ("[lanes.slow]\nlimit = 0", "lanes.slow.limit"),
        ("max_child_depth = -1", "max_child_depth"),
        ("[agents.a]\ndriver = \"demo\"\nlimits = { with_children = true }", "neither is given"),
        (&*as_tool("description = \"d\""), "`agent` is missing"),
        (&*as_tool("agent = \"a\""), "`description` is missing"),
        (&*as_tool("agent = \"a\"\ndescription = \"d\"\ntimeout = \"0s\""), "timeout"),
        (&*as_tool("agent = \"a\"\ndescription = \"d\"\nmax_result_bytes = \"2MiB\""), "1048576"),
        (&*as_tool("agent = \"a\"\ndescription = \"d\"\nlane = \"fast\""), "agents.a.agents.t.lane"),
        (
            &*as_tool(
                "agent = \"a\"\ndescription = \"d\"\n[agents.a.tools.t]\nurl = \"http://x/\"\ndescription = \"d\"",
            ),
            "in `tools` already",
        ),
        ("[lanes.slow]\n[agents.a]\ndriver = \"demo\"\nlane = \"fast\"", "there is slow, default"),
        ("[agents.a]\ndriver = \"demo\"\nconcurrency = \"both\"", "supersede"),
        ("[agents.a]\ndriver = \"demo\"\nretry = { max_attempts = 0 }", "retry.max_attempts"),
        ("[agents.a]\ndriver = \"demo\"\nretry = { backoff = \"2s\", max_backoff = \"1s\" }", "retry.max_backoff"),
        ("[agents.a]\ndriver = \"demo\"\nretry = { codes = [\"MODEL\"] }", "MODEL_ERROR"),
        ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nidle_timeout = \"0s\"", "idle_timeout"),
        ("[agents.\"a/b\"]\ndriver = \"demo\"", "agents.a/b"),
        ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nfirst_event_timeout = \"0s\"", "first_event_timeout"),
        ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\ncancel_url = \"here\"", "`here`"),
        ("[agents.a]\ndriver = \"agui\"", "`url` is missing"),
        ("[agents.a]\ndriver = \"external\"\nlease = \"10ms\"", "lease"),
        ("[agents.a]\ndriver = \"exec\"", "`command` is missing"),
        ("[agents.a]\ndriver = \"exec\"\ncommand = [\"\"]", "`command` is empty"),
        ("[agents.a]\ndriver = \"exec\"\ncommand = [\"x\"]\noutput = \"sse\"", "auto"),
        ("[agents.a]\ndriver = \"exec\"\ncommand = [\"x\"]\ntimeout = \"0s\"", "timeout"),
        ("[agents.a]\ndriver = \"exec\"\ncommand = [\"x\"]\nmax_memory = \"lots\"", "`lots`"),
        (
            "[agents.a]\ndriver = \"exec\"\ncommand = [\"x\"]\nenv = { A = \"${RUNWIRE_TEST_UNSET}\" }",
            "RUNWIRE_TEST_UNSET",
        ),
        ("[agents.a]\ndriver = \"agui\"\nurl = \"ftp://x/\"", "ftp"),
        (
            "[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nprotocol_version = \"0.1.9\"",
            "\"0.1.9\" is no AG-UI version",
        ),
        ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nprotocol_version = \"2.0\"", "write \"1.0\""),
        ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nbinding = \"protbuf\"", "protobuf"),
        (
            "[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\nheaders = { A = \"${RUNWIRE_TEST_UNSET}\" }",
            "RUNWIRE_TEST_UNSET",
        ),
        (
            "[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\ncapabilities.reasoning.supported = \"yes\"",
            "/reasoning/supported",
        ),
        ("[agents.a]\ndriver = \"agui\"\nurl = \"http://x/\"\ncapabilities.magic = {}", "`/magic`"),
        ("[agents.a]\ndriver = \"openai\"", "`model` is missing"),
        ("[agents.a]\ndriver = \"demo\"\npayloads = { redact = [\"a\", \"(\"] }", "agents.a: payloads: redact[1]"),
        ("[agents.a]\ndriver = \"demo\"\npayloads = { redact = [\"x*\"] }", "found everywhere"),
        ("[agents.a]\ndriver = \"demo\"\npayloads = { redact_keys = [\"\"] }", "redact_keys[0]"),
        ("[agents.a]\ndriver = \"demo\"\npayloads = { model_calls = true }", "made elsewhere"),
        ("[agents.a]\ndriver = \"demo\"\npayloads = { max_bytes = \"0B\" }", "payloads: max_bytes"),
        (
            "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\n\
             mcp.s = { command = [\"x\"], approvals = { pay = \"sometimes\" } }",
            "mcp.s: approvals.pay: approval: `sometimes`",
        ),
        (
            "[agents.a]\ndriver = \"gemini\"\nmodel = \"m\"\napi_key_env = \"RUNWIRE_TEST_UNSET\"",
            "api_key_env: the environment variable RUNWIRE_TEST_UNSET is wanted",
        ),
        ("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\nmax_model_calls = 0", "max_model_calls"),
        ("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\ncall_timeout = \"0s\"", "call_timeout"),
        ("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\ntools.t = { url = \"http://x/\" }", "description"),
        ("[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\nmcp.s = {}", "mcp.s: one of `command` and `url`"),
        (
            "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\n\
             mcp.s = { command = [\"x\"], env = [\"RUNWIRE_TEST_UNSET\"] }",
            "RUNWIRE_TEST_UNSET",
        ),
        (
            "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\n\
             tools.t = { url = \"http://x/\", description = \"d\", approval = \"sometimes\" }",
            "tools.t: approval: `sometimes`",
        ),
        (
            "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\n\
             tools.t = { url = \"http://x/\", description = \"d\", approval = { arguments = \"(\" } }",
            "tools.t: approval.arguments",
        ),
        ("[[tokens]]\nname = \"a\"", "tokens[0]"),
        ("[[tokens]]\nname = \"a\"\ntoken = \"\"", "empty"),
        ("[[tokens]]\nname = \"a\"\ntoken = \"t\"\nruns = \"some\"", "some"),
        ("cors_origins = [\"localhost\"]", "`localhost`"),
        ("copilotkit_path = \"copilotkit\"", "`copilotkit` is no path"),
        ("copilotkit_path = \"/v2/copilotkit\"", "routes of its own under `/v2`"),
        (
            "[agents.a]\ndriver = \"demo\"\n[[agents.a.guardrails]]\nname = \"g\"\non = [\"input\"]\naction = \"stop\"",
            "guardrails[0]",
        ),
        (
            "[agents.a]\ndriver = \"demo\"\n[[agents.a.guardrails]]\nname = \"g\"\non = [\"input\"]\npattern = \"(\"\n\
             action = \"warn\"",
            "guardrails[0]: pattern",
        ),
        ("[prices]\ncurrency = \"dollars\"", "`dollars`"),
        ("[[prices.models]]\nmodel = \"m\"\ninput = 0.5\noutput = 1", "prices.models[0]: input"),
        ("[[prices.models]]\nmodel = \"m\"\ninput = \"-1\"\noutput = 1", "`-1`"),
        ("[[prices.models]]\nmodel = \"*m\"\ninput = 1\noutput = 1", "`*m`"),
        ("[agents.a]\ndriver = \"demo\"\nlimits = { cost = \"1\" }", "agents.a: limits: cost"),
        ("[agents.a]\ndriver = \"demo\"\nlimits = { tokens = 0 }", "tokens"),
    ] {
        let error = error(text);
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn copilotkit_has_a_path_unless_it_is_empty() {
    let path = |text: &str| settings(text).unwrap().copilotkit_path;
    assert_eq!(path("").as_deref(), Some("/copilotkit"));
    assert_eq!(path("copilotkit_path = \"/api/copilotkit\"").as_deref(), Some("/api/copilotkit"));
    assert_eq!(path("copilotkit_path = \"\""), None);
}

#[test]
fn retention_is_of_all_agents_or_of_one_and_keeps_everything_by_default() {
    assert_eq!(settings("").unwrap().retention, Retention::default());
    let text = "[retention]\nmax_age = \"30d\"\nmax_runs = 7\nmax_bytes = \"2GB\"\ntombstones = \"1h\"\n\
                [agents.a]\ndriver = \"demo\"\n[agents.b]\ndriver = \"demo\"\nretention = { max_runs = 1 }\n\
                [agents.c]\ndriver = \"demo\"\nretention = {}";
    let retention = settings(text).unwrap().retention;
    let thirty_days = Duration::from_secs(30 * 24 * 3600);
    let all = Keep { max_age: Some(thirty_days), max_runs: Some(7), max_bytes: Some(2_000_000_000) };
    assert_eq!((retention.default, retention.tombstones), (all, Duration::from_secs(3600)));
    let one = Keep { max_runs: Some(1), ..Keep::default() };
    assert_eq!(retention.agents, BTreeMap::from([("b".to_owned(), one), ("c".to_owned(), Keep::default())]));
}

#[test]
fn prices_and_limits_are_amounts_that_stay_exact() {
    let text = "[prices]\ncurrency = \"EUR\"\n[[prices.models]]\nmodel = \"m*\"\ninput = \"0.1\"\noutput = 3\n\
                [agents.a]\ndriver = \"demo\"\nlimits = { cost = \"0.30\", duration = \"5m\", tokens = 7 }";
    let settings = settings(text).unwrap();
    let limits = &settings.agents[0].policy.limits;
    assert_eq!(limits.cost.map(|cost| cost.to_string()), Some("0.30".to_owned()));
    assert_eq!((limits.duration, limits.tokens, limits.model_calls), (Some(Duration::from_secs(300)), Some(7), None));
    assert_eq!(settings.prices.unwrap().currency(), "EUR");
}

#[test]
fn what_is_kept_of_an_agents_runs_is_no_part_of_its_revision() {
    let revision = |text: &str| settings(text).unwrap().agents[0].revision.clone();
    let agent = "[agents.a]\ndriver = \"demo\"\n";
    assert_eq!(revision(agent), revision(&format!("{agent}retention = {{ max_runs = 1 }}")));
}

#[test]
fn an_agents_failures_are_tried_again_as_its_table_says_and_by_default_not() {
    let retry = |text: &str| settings(text).unwrap().agents[0].policy.retry.clone();
    assert_eq!(retry("[agents.a]\ndriver = \"demo\"").max_attempts, 1);
    let text =
        "[agents.a]\ndriver = \"demo\"\n[agents.a.retry]\nmax_attempts = 4\nbackoff = \"2m\"\ncodes = [\"TIMEOUT\"]";
    let policy = retry(text);
    assert_eq!((policy.max_attempts, policy.max_backoff), (4, Duration::from_secs(120)));
    assert_eq!(policy.codes, Some(vec![runwire_frame::ErrorCode::Timeout]));
}

#[test]
fn lanes_have_limits_and_an_agent_has_a_lane_and_a_way_with_its_sessions() {
    let text = "[lanes.slow]\nlimit = 2\nmax_queued = 7\n[lanes.default]\nlimit = 9\n[agents.a]\ndriver = \"demo\"\n\
                lane = \"slow\"\nconcurrency = \"supersede\"";
    let settings = settings(text).unwrap();
    assert_eq!(settings.lanes["slow"], LaneOptions { limit: Some(2), max_queued: Some(7) });
    assert_eq!(settings.lanes["default"].limit, Some(9));
    let policy = &settings.agents[0].policy;
    assert_eq!(policy.lane.as_deref(), Some("slow"));
    assert_eq!(policy.concurrency, runwire_engine::Concurrency::Supersede);
}

#[test]
fn a_revision_changes_with_the_configuration() {
    let revision = |text: &str| settings(text).unwrap().agents[0].revision.clone().unwrap();
    let one = revision("[agents.a]\ndriver = \"demo\"");
    assert_eq!(one, revision("[agents.a]\ndriver = \"demo\""));
    assert_ne!(one, revision("[agents.a]\ndriver = \"demo\"\nrepeat = 2"));
}

#[test]
fn what_is_kept_and_taken_out_is_configured_for_each_agent_and_is_no_part_of_its_revision() {
    // Only the first of several can be installed, and it does not matter which that is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let agent = |more: &str| {
        let text = format!(
            "[agents.a]\ndriver = \"openai\"\nmodel = \"m\"\napi_key_env = \"CARGO_MANIFEST_DIR\"\n\
             headers = {{ A = \"${{HOME}}\", B = \"Bearer ${{CARGO_PKG_DESCRIPTION}}\" }}\n{more}"
        );
        settings(&text).unwrap().agents.remove(0)
    };
    let plain = agent("");
    assert!(!plain.policy.payloads.model_calls && !plain.policy.payloads.redaction.holds_arguments());
    // What stands in the environment of this test for a key, and for the secret of a header.
    let (key, secret) = (env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_DESCRIPTION"));
    let home = std::env::var("HOME").unwrap();
    let said = format!("{key} | {secret} | {home}");
    assert_eq!(plain.policy.payloads.redaction.text(&said), format!("[redacted] | [redacted] | {home}"));

    let table =
        "payloads = { model_calls = true, max_bytes = \"2KiB\", redact = [\"sk-[a-z]+\"], redact_keys = [\"pin\"] }";
    let kept = agent(table);
    let payloads = &kept.policy.payloads;
    assert_eq!((payloads.model_calls, payloads.max_bytes), (true, 2048));
    assert_eq!(payloads.redaction.text(r#"{"pin":1,"k":"sk-abc"}"#), r#"{"pin":"[redacted]","k":"[redacted]"}"#);
    assert_eq!(kept.revision, plain.revision);
}
