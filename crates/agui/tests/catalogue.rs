//! Every rule has a page, a sentence, a stream that breaks exactly it and one that does not.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::time::Duration;

use runwire_agui::proto::Accept;
use runwire_agui::{
    Answer, CheckOptions, CheckRule, Checker, Event, Example, ExampleAnswer, Judgement, ReportedOutcome, RunAgentInput,
    Severity, Verifier, WarningRule,
};

fn judge<B: AsRef<[u8]>>(pieces: &[(Option<u64>, B)], input: Option<&str>) -> Judgement {
    let input = input.map(|input| RunAgentInput::decode(input.as_bytes()).unwrap().0);
    let mut checker = Checker::new(CheckOptions { input, ..CheckOptions::default() });
    for (at, piece) in pieces {
        match at {
            Some(at) => checker.push_at(piece.as_ref(), Duration::from_millis(*at)).unwrap(),
            None => checker.push(piece.as_ref()).unwrap(),
        }
    }
    checker.finish().unwrap()
}

fn judge_answer(answer: ExampleAnswer) -> Judgement {
    let ExampleAnswer { accept, status, content_type, body, left_open } = answer;
    let mut checker = Checker::new(CheckOptions::default());
    checker.answered(&Answer { status, content_type, accept: Some(Accept::of([accept])) });
    checker.push_at(body, Duration::from_millis(40)).unwrap();
    if let Some(wait) = left_open {
        checker.left_at(Duration::from_millis(40 + wait));
    }
    checker.finish().unwrap()
}

fn timed(pieces: &[(u64, &'static str)]) -> Vec<(Option<u64>, &'static str)> {
    pieces.iter().map(|(at, piece)| (Some(*at), *piece)).collect()
}

/// The bad stream breaks the rule and no other one, and the outcome is what the severity says.
fn breaks_only(rule: CheckRule, judgement: &Judgement) {
    let found: HashSet<CheckRule> = judgement.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(found, HashSet::from([rule]), "the bad stream of {rule}: {:#?}", judgement.findings);
    let outcome = match rule.severity() {
        Severity::Violation => ReportedOutcome::Rejected,
        Severity::Truncation => ReportedOutcome::Truncated,
        Severity::Warning | Severity::Advice => ReportedOutcome::Completed,
    };
    assert_eq!(judgement.report.outcome, outcome, "the bad stream of {rule}");
}

fn is_clean(rule: CheckRule, judgement: &Judgement) {
    assert_eq!(judgement.findings, [], "the good stream of {rule}");
    assert_eq!(judgement.report.outcome, ReportedOutcome::Completed, "the good stream of {rule}");
}

#[test]
fn the_bad_stream_of_every_rule_breaks_exactly_it_and_the_good_one_is_clean() {
    for rule in CheckRule::all() {
        match rule.entry().example {
            Example::Stream { bad, good } => {
                breaks_only(rule, &judge(&[(None, bad)], None));
                is_clean(rule, &judge(&[(None, good)], None));
            }
            Example::Answer { input, bad, good } => {
                breaks_only(rule, &judge(&[(None, bad)], Some(input)));
                is_clean(rule, &judge(&[(None, good)], Some(input)));
            }
            Example::Timed { bad, good } => {
                breaks_only(rule, &judge(&timed(bad), None));
                is_clean(rule, &judge(&timed(good), None));
            }
            Example::Answered { bad, good } => {
                breaks_only(rule, &judge_answer(bad));
                is_clean(rule, &judge_answer(good));
            }
            Example::Frames { bad, good } => {
                breaks_only(rule, &judge(&[(None, bad)], None));
                is_clean(rule, &judge(&[(None, good)], None));
            }
            Example::Input { bad, good } => {
                let warned = |input: &str| -> Vec<WarningRule> {
                    let (_, warnings) = RunAgentInput::decode(input.as_bytes()).unwrap();
                    warnings.iter().map(|warning| warning.rule).collect()
                };
                let CheckRule::Warning(expected) = rule else { panic!("{rule} is no warning") };
                assert_eq!((warned(bad), warned(good)), (vec![expected], vec![]), "{rule}");
            }
            Example::Verified { bad, good } => {
                let verified = |stream: &str| {
                    let mut verifier = Verifier::new();
                    let events =
                        stream.lines().map(|line| Event::from_value(serde_json::from_str(line).unwrap()).unwrap());
                    let broken: Vec<CheckRule> = events
                        .filter_map(|event: Event| verifier.push(&event).err())
                        .map(|violation| CheckRule::Violation(violation.rule))
                        .collect();
                    broken
                };
                assert_eq!((verified(bad), verified(good)), (vec![rule], vec![]), "{rule}");
            }
        }
    }
}

#[test]
fn every_rule_has_a_name_of_its_own_a_page_and_a_sentence() {
    let mut names = HashSet::new();
    for rule in CheckRule::all() {
        let name = rule.as_str();
        assert!(names.insert(name), "{name} is the name of two rules");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        assert_eq!(name.parse(), Ok(rule));
        let entry = rule.entry();
        let section = entry.page.split(['/', '#']).next();
        assert!(matches!(section, Some("basic" | "events")), "{}", entry.page);
        assert!(entry.url().starts_with("https://docs.ag-ui.com/spec/1.0/"), "{}", entry.url());
        assert!(entry.statement.ends_with('.') && !entry.statement.contains("  "), "{}", entry.statement);
    }
    assert!("first-evnt".parse::<CheckRule>().is_err());
}
