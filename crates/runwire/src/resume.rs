//! `runwire resume`

use anyhow::{Context as _, bail};
use runwire_client::{Answer, OpenInterrupt, RunRecord};
use serde_json::{Value, json};

use crate::cli::ResumeArgs;
use crate::exit::Exit;
use crate::follow::{follow_frames, server};
use crate::plain::Plain;

/// Answers what a suspended run waits for, or shows it.
pub async fn run(args: ResumeArgs) -> anyhow::Result<Exit> {
    let server = server(&args.server)?;
    let record = server.run(&args.run).await?;
    let Some(waits_for) = record.waits_for() else {
        bail!("run {} waits for no answer: it is {}", record.run_id(), record.status());
    };
    if args.answer.is_empty() && !args.approve && !args.deny {
        return show(&record, args.server.json);
    }
    let answers = answers(&args, &waits_for.interrupts)?;
    let resumed = server.resume(&args.run, &answers).await?;
    if args.follow {
        let frames = server.follow(&args.run).after(record.head()).start();
        return follow_frames(frames, args.server.json, Some(0), None).await;
    }
    if args.server.json {
        println!("{}", serde_json::to_string(&resumed)?);
    } else {
        let run_id = Plain(resumed.run_id());
        println!("run {run_id} goes on; `runwire tail {run_id}` follows it");
    }
    Ok(Exit::Done)
}

/// What the run waits for, and how it is answered. Nothing was done, which is not what the command is for.
fn show(record: &RunRecord, json: bool) -> anyhow::Result<Exit> {
    if json {
        println!("{}", serde_json::to_string(record)?);
        return Ok(Exit::CouldNot);
    }
    let waits_for = record.waits_for().context("the run waits for nothing")?;
    let run_id = Plain(record.run_id());
    println!("run {run_id} waits for an answer");
    if let Some(prompt) = &waits_for.prompt {
        println!("  {}", Plain(prompt));
    }
    if let Some(deadline) = &waits_for.deadline_at {
        println!("  until {}", Plain(deadline));
    }
    for interrupt in &waits_for.interrupts {
        println!(
            "  {}: {}",
            Plain(&interrupt.interrupt_id),
            Plain(interrupt.message.as_ref().unwrap_or(&interrupt.reason))
        );
        if let Some(schema) = &interrupt.response_schema {
            println!("    the answer fits {}", Plain(&serde_json::to_string(schema)?));
        }
    }
    if waits_for.interrupts.iter().all(OpenInterrupt::asks_for_approval) {
        println!("answer with: runwire resume {run_id} --approve, or --deny");
    } else {
        println!("answer with: runwire resume {run_id} --answer ID=JSON");
    }
    Ok(Exit::CouldNot)
}

fn answers(args: &ResumeArgs, open: &[OpenInterrupt]) -> anyhow::Result<Vec<Answer>> {
    let mut given: Vec<(&str, Value)> = Vec::new();
    for text in &args.answer {
        let (id, value) = answer(text, open)?;
        if given.iter().any(|(other, _)| *other == id) {
            bail!("--answer {text}: `{id}` is answered twice");
        }
        given.push((id, value));
    }
    let mut answers = Vec::new();
    for interrupt in open {
        let id = &interrupt.interrupt_id;
        let own = given.iter().find(|(of, _)| of == id).map(|(_, value)| value.clone());
        match own {
            Some(value) => answers.push(Answer::resolved(id, value)),
            None if args.approve => answers.push(Answer::resolved(id, json!({ "approved": true }))),
            None if args.deny && interrupt.asks_for_approval() => {
                answers.push(Answer::resolved(id, json!({ "approved": false })));
            }
            // What asks for no yes or no is given up.
            None if args.deny => answers.push(Answer::cancelled(id)),
            // The server names all that are missing.
            None => {}
        }
    }
    Ok(answers)
}

/// The interrupt that an `--answer` is for, and the value.
fn answer<'a>(text: &str, open: &'a [OpenInterrupt]) -> anyhow::Result<(&'a str, Value)> {
    let named = open.iter().filter_map(|interrupt| {
        let value = text.strip_prefix(&*interrupt.interrupt_id)?.strip_prefix('=')?;
        Some((&*interrupt.interrupt_id, value))
    });
    // An id may have a `=` of its own.
    let named = named.max_by_key(|(id, _)| id.len());
    let (id, value) = match (named, open) {
        (Some(named), _) => named,
        (None, [only]) => (&*only.interrupt_id, text),
        (None, _) => {
            let ids: Vec<&str> = open.iter().map(|interrupt| &*interrupt.interrupt_id).collect();
            bail!("--answer {text}: it has to begin with the id of an interrupt and `=`; there is {}", ids.join(", "));
        }
    };
    let value = serde_json::from_str(value)
        .with_context(|| format!("--answer {text}: the answer is JSON, so that a text stands in quotation marks"))?;
    Ok((id, value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn open(ids: &[&str]) -> Vec<OpenInterrupt> {
        let interrupt = |id: &&str| serde_json::from_value(json!({ "interrupt_id": id, "reason": "input" })).unwrap();
        ids.iter().map(interrupt).collect()
    }

    #[test]
    fn an_answer_names_its_interrupt_unless_there_is_only_one() {
        assert_eq!(answer("{\"a=b\":1}", &open(&["i"])).unwrap(), ("i", json!({ "a=b": 1 })));
        assert_eq!(answer("i=true", &open(&["i"])).unwrap(), ("i", json!(true)));
        assert_eq!(answer("i=2=\"x\"", &open(&["i", "i=2"])).unwrap(), ("i=2", json!("x")));
        assert_eq!(answer("j=\"x\"", &open(&["i", "j"])).unwrap(), ("j", json!("x")));
        let unnamed = answer("true", &open(&["i", "j"])).unwrap_err().to_string();
        assert!(unnamed.contains("i, j"), "{unnamed}");
        let no_json = answer("yes", &open(&["i"])).unwrap_err().to_string();
        assert!(no_json.contains("quotation marks"), "{no_json}");
    }
}
