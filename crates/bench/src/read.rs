//! A crowd of readers, in a process of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};

use crate::child::ChildProcess;
use crate::wire::Transport;

/// What a crowd reads.
#[derive(Args, Clone, Debug)]
pub struct ReadArgs {
    /// The server.
    #[arg(long)]
    address: String,
    /// How.
    #[arg(long)]
    transport: Transport,
    /// Each of these streams.
    #[arg(long = "path", required = true)]
    paths: Vec<String>,
    /// By so many readers each.
    #[arg(long, default_value_t = 1)]
    readers: usize,
}

/// Said once every reader is answered.
#[derive(Debug, Deserialize, Serialize)]
struct Attached {
    attached: usize,
}

/// Said when every stream has ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Read {
    /// Payload bytes, over all readers, framing not counted.
    pub bytes: u64,
    /// Chunks or messages, over all readers.
    pub pieces: u64,
    /// From the request of the first reader to the end of the last, in seconds.
    pub seconds: f64,
    /// From a reader's request to the first byte of its second piece, which is the first frame; the mean over readers,
    /// in seconds.
    pub first_frame: f64,
}

/// A crowd in a process of its own, every reader attached.
pub struct Crowd {
    process: ChildProcess,
}

impl Crowd {
    /// Starts `readers` readers of each path.
    ///
    /// # Errors
    /// When one of them is refused.
    pub fn start(address: &str, transport: Transport, paths: &[String], readers: usize) -> anyhow::Result<Crowd> {
        let mut args: Vec<String> = ["read", "--address", address, "--transport", transport.as_str(), "--readers"]
            .into_iter()
            .map(str::to_owned)
            .collect();
        args.push(readers.to_string());
        args.extend(paths.iter().flat_map(|p| ["--path".to_owned(), p.clone()]));
        let mut process = ChildProcess::start(&args)?;
        let Attached { attached } = process.hear()?;
        if attached != readers * paths.len() {
            bail!("{attached} readers attached of {}", readers * paths.len());
        }
        Ok(Crowd { process })
    }

    /// Waits until every reader's stream has ended.
    ///
    /// # Errors
    /// When one of them broke.
    pub fn finish(mut self) -> anyhow::Result<Read> {
        let read = self.process.hear()?;
        self.process.finish()?;
        Ok(read)
    }
}

/// How many readers of a crowd are on their way in at once: fewer than a listener keeps waiting, which would make the
/// kernel drop the others' requests and try again after a second.
const AT_ONCE: usize = 256;

/// The crowd's process.
///
/// # Errors
/// When a reader is refused or its stream breaks.
pub fn main(args: &ReadArgs) -> anyhow::Result<()> {
    // One thread: a crowd that took every core would leave the server none.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let read = runtime.block_on(read(args))?;
    println!("{}", serde_json::to_string(&read)?);
    Ok(())
}

async fn read(args: &ReadArgs) -> anyhow::Result<Read> {
    let started = Instant::now();
    let all = args.paths.len() * args.readers;
    let buffer = if all > 16 { 8 * 1024 } else { 256 * 1024 };
    // One place for each reader, so that none waits to say that it is attached.
    let (attached, mut arrivals) = mpsc::channel(all);
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let readers = args.paths.iter().flat_map(|path| std::iter::repeat_n(path, args.readers)).map(|path| {
        let request = args.transport.request(&args.address, path);
        let door = Door { gate: Arc::clone(&gate), attached: attached.clone() };
        tokio::spawn(follow(args.address.clone(), args.transport, request, buffer, door))
    });
    let readers: Vec<_> = readers.collect();
    drop(attached);
    let mut count = 0;
    while arrivals.recv().await.is_some() {
        count += 1;
        if count == all {
            println!("{}", serde_json::to_string(&Attached { attached: count })?);
        }
    }
    let mut read = Read { bytes: 0, pieces: 0, seconds: 0.0, first_frame: 0.0 };
    for one in try_join_all(readers).await? {
        let one = one?;
        read.bytes += one.bytes;
        read.pieces += one.pieces;
        read.first_frame += one.first_frame.as_secs_f64() / all as f64;
    }
    read.seconds = started.elapsed().as_secs_f64();
    Ok(read)
}

/// Through which a reader comes in.
struct Door {
    /// Lets so many in at once.
    gate: Arc<Semaphore>,
    /// Told when it is in.
    attached: mpsc::Sender<()>,
}

struct One {
    bytes: u64,
    pieces: u64,
    first_frame: Duration,
}

async fn follow(
    address: String,
    transport: Transport,
    request: String,
    buffer: usize,
    door: Door,
) -> anyhow::Result<One> {
    let coming_in = door.gate.acquire_owned().await.context("the gate is never closed")?;
    let mut socket = TcpStream::connect(&address).await.with_context(|| format!("{address} cannot be reached"))?;
    let asked = Instant::now();
    socket.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; buffer];
    let mut filled = 0;
    let head = loop {
        let read = socket.read(&mut buffer[filled..]).await?;
        filled += read;
        match transport.head(&buffer[..filled])? {
            Some(head) => break head,
            None if read == 0 || filled == buffer.len() => bail!("the server's answer has no whole head"),
            None => {}
        }
    };
    let mut body = transport.body();
    let mut first_frame = None;
    let mut attached = Some((door.attached, coming_in));
    let mut from = head;
    loop {
        body.feed(&buffer[from..filled], |_| {})?;
        from = 0;
        let frames_begin = if transport == Transport::Sse { 2 } else { 1 };
        if first_frame.is_none() && body.pieces() >= frames_begin {
            first_frame = Some(asked.elapsed());
        }
        // Only a reader that has had something is surely waiting in the run's tail.
        if body.pieces() > 0
            && let Some((attached, _coming_in)) = attached.take()
        {
            let _ = attached.send(()).await;
        }
        if body.ended() {
            break;
        }
        filled = socket.read(&mut buffer).await?;
        if filled == 0 {
            bail!("the stream was cut after {} bytes", body.bytes());
        }
    }
    Ok(One { bytes: body.bytes(), pieces: body.pieces(), first_frame: first_frame.unwrap_or_else(|| asked.elapsed()) })
}
