//! Where streams come from: a file, standard input, a browser's capture, or an agent that is run.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, bail};
use reqwest::Url;
use runwire_agui::{CheckOptions, Checker, Keep, RunAgentInput};

use super::{Judged, Streams, endpoint, har};
use crate::cli::CheckArgs;
use crate::plain::Plain;

/// So much is read at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// So much of a file says whether it is a browser's capture.
const HEAD_BYTES: usize = 1024;

/// Judges the streams of the source that the arguments name.
pub async fn judge(args: &CheckArgs) -> anyhow::Result<Streams> {
    let Some(source) = args.source.as_deref() else { bail!("there is no source to check") };
    let url = url(source)?;
    if url.is_none() && (!args.header.is_empty() || args.timeout.is_some()) {
        bail!("--header and --timeout are for a URL, and {} is none", source.display());
    }
    if url.is_some() && args.only.is_some() {
        bail!("--only is for a HAR file, and a URL is none");
    }
    if [Some(source), args.input.as_deref()] == [Some(Path::new("-")); 2] {
        bail!("standard input can be only one of both: the stream, or the --input that it answers");
    }
    let given = args.input.as_deref().map(read_input).transpose()?;
    let keep = if args.no_reduce { Keep::Nothing } else { Keep::Everything };
    let options = CheckOptions { input: None, form: None, agent: args.protocol_version, keep };
    if let Some(url) = url {
        return Ok(endpoint::judge(&url, given, options, args).await?.into());
    }
    let input = given.map(GivenInput::decode).transpose()?;
    let options = CheckOptions { input, ..options };
    let name = source.display().to_string();
    let judged = if source == Path::new("-") {
        read_stream(&name, io::stdin().lock(), options, args)
    } else {
        let file = std::fs::File::open(source).with_context(|| format!("{name} cannot be read"))?;
        read_stream(&name, file, options, args)
    };
    judged.with_context(|| name.clone())
}

/// The source as a URL, if it is written as one.
fn url(source: &Path) -> anyhow::Result<Option<Url>> {
    let Some(text) = source.to_str() else { return Ok(None) };
    let schemes = ["http://", "https://"];
    let written = |scheme: &&str| text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    let Some(scheme) = schemes.into_iter().find(written) else {
        if let Some(other) = scheme_of(text).filter(|_| !source.exists()) {
            bail!(
                "{other}:// is a scheme that cannot be checked: an agent is run by its http:// or https:// URL, and a file \
                 is named by its path alone"
            );
        }
        return Ok(None);
    };
    // It is not repeated, since it may hold a secret and cannot be taken apart.
    Url::parse(text).map(Some).with_context(|| format!("the source that begins with {scheme} is no URL"))
}

/// The scheme of a text that is written like a URL.
fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(letters)).then_some(scheme)
}

/// A run input that was given in a file.
pub struct GivenInput {
    /// What it is called in what is said about it.
    pub name: String,
    /// What the file holds.
    pub bytes: Vec<u8>,
}

impl GivenInput {
    /// Reads it as a server would: it has been sent already, by a client of whatever age.
    fn decode(self) -> anyhow::Result<RunAgentInput> {
        let (input, warnings) = RunAgentInput::decode(&self.bytes).with_context(|| self.name.clone())?;
        for warning in warnings {
            eprintln!("runwire: {}: {}", Plain(&self.name), Plain(&warning.message));
        }
        Ok(input)
    }
}

fn read_input(path: &Path) -> anyhow::Result<GivenInput> {
    let name = format!("--input {}", path.display());
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
    } else {
        bytes = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    }
    Ok(GivenInput { name, bytes })
}

/// Judges what a file holds, in pieces: a capture's streams, or the one stream that it is.
fn read_stream(name: &str, mut source: impl Read, options: CheckOptions, args: &CheckArgs) -> anyhow::Result<Streams> {
    let unreadable = || if name == "-" { "standard input cannot be read" } else { "it cannot be read" };
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    // A pipe gives what there is, which may be too little to tell.
    let mut head = source.by_ref().take(HEAD_BYTES as u64);
    head.read_to_end(&mut chunk).with_context(unreadable)?;
    if har::is_capture(&chunk) {
        source.read_to_end(&mut chunk).with_context(unreadable)?;
        return har::judge(name, &chunk, &options, args.only.as_deref());
    }
    if args.only.is_some() {
        bail!("--only is for a HAR file, and this is none");
    }
    let mut checker = Checker::new(options);
    while !chunk.is_empty() {
        checker.push(&chunk)?;
        chunk.clear();
        source.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk).with_context(unreadable)?;
    }
    Ok(Judged { judgement: checker.finish()?, source: name.to_owned() }.into())
}
