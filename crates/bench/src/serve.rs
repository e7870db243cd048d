//! A server in a process of its own: Runwire, or the bare one.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::{Bytes, BytesMut};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::agents::{Steady, Torrent, agent};
use crate::bare::{Bare, FINISHED_SSE, LIVE_SSE, LIVE_WS, Piece};
use crate::child::ChildProcess;
use crate::finished_run::write_finished_run;
use crate::runwire::{Server, stream_path};
use crate::wire::Transport;

/// What a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Runwire, with one run that waits for the word `go`.
    Live,
    /// Runwire, with one run that writes as fast as it can when it hears `go`, and is finished from then on.
    Torrent,
    /// Runwire, with one finished run.
    Finished,
    /// The bare server, which says the same when it hears `go`.
    BareLive,
    /// The bare server, with the same in memory.
    BareFinished,
}

/// How a server is started.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// What it serves.
    #[arg(long)]
    pub part: Part,
    /// Runwire: where its store goes.
    #[arg(long, default_value = ".")]
    pub folder: PathBuf,
    /// Runwire: how many frames.
    #[arg(long, default_value_t = 0)]
    pub frames: usize,
    /// Bare: where the same bytes are to be had.
    #[arg(long, default_value = "")]
    pub address: String,
    /// Bare: as which stream.
    #[arg(long, default_value = "")]
    pub path: String,
    /// Bare: how many frames were there before the word `go`.
    #[arg(long, default_value_t = 0)]
    pub greeting: usize,
    /// Live: the time from one frame to the next, in milliseconds.
    #[arg(long, default_value_t = 30)]
    pub pace_ms: u64,
    /// Bare, finished: how many frames make a chunk.
    #[arg(long, default_value_t = 1)]
    pub chunk: usize,
}

impl ServeArgs {
    /// A server of this part, all else as by default.
    pub fn of(part: Part) -> ServeArgs {
        ServeArgs {
            part,
            folder: PathBuf::from("."),
            frames: 0,
            address: String::new(),
            path: String::new(),
            greeting: 0,
            pace_ms: 30,
            chunk: 1,
        }
    }

    fn to_args(&self) -> anyhow::Result<Vec<String>> {
        let part = self.part.to_possible_value().context("every part can be named")?;
        let folder = self.folder.to_str().context("the folder's name is not text")?;
        let pairs = [
            ("--part", part.get_name().to_owned()),
            ("--folder", folder.to_owned()),
            ("--frames", self.frames.to_string()),
            ("--address", self.address.clone()),
            ("--path", self.path.clone()),
            ("--greeting", self.greeting.to_string()),
            ("--pace-ms", self.pace_ms.to_string()),
            ("--chunk", self.chunk.to_string()),
        ];
        let pairs = pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
        Ok(std::iter::once("serve".to_owned()).chain(pairs).collect())
    }
}

/// What a server says once it listens.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Listening {
    /// Where.
    pub address: String,
    /// Its stream by SSE.
    pub sse: String,
    /// Its stream by WebSocket; empty where there is none.
    pub ws: String,
}

impl Listening {
    /// Its stream by this transport.
    pub fn path(&self, transport: Transport) -> &str {
        match transport {
            Transport::Sse => &self.sse,
            Transport::Ws => &self.ws,
        }
    }
}

/// A server in a process of its own, listening.
pub struct ServerProcess {
    /// The process.
    pub process: ChildProcess,
    /// Where it listens.
    pub at: Listening,
}

impl ServerProcess {
    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// When it does not come to that.
    pub fn start(args: &ServeArgs) -> anyhow::Result<ServerProcess> {
        let mut process = ChildProcess::start(&args.to_args()?)?;
        let at = process.hear()?;
        Ok(ServerProcess { process, at })
    }
}

/// The server's process: until its input ends.
///
/// # Errors
/// When it cannot serve.
pub fn main(args: ServeArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (send, words) = mpsc::channel(1);
    // Ends with the input; not joined, because the process ends then.
    std::thread::spawn(move || {
        for word in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.blocking_send(word).is_err() {
                return;
            }
        }
    });
    runtime.block_on(async {
        match args.part {
            Part::Live => live(args, words).await,
            Part::Torrent => torrent(args, words).await,
            Part::Finished => finished(args, words).await,
            Part::BareLive => bare_live(args, words).await,
            Part::BareFinished => bare_finished(args, words).await,
        }
    })
}

fn listen(address: String, sse: String, ws: String) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&Listening { address, sse, ws })?);
    Ok(())
}

async fn live(args: ServeArgs, mut words: mpsc::Receiver<String>) -> anyhow::Result<()> {
    let (go, gone) = watch::channel(false);
    let steady = Steady { go: gone, pieces: args.frames, pace: Duration::from_millis(args.pace_ms) };
    let server = Server::start(&args.folder, [agent(steady)]).await?;
    let run = server.create_run("bench").await?;
    listen(server.address.to_string(), stream_path(&run, Transport::Sse), stream_path(&run, Transport::Ws))?;
    while words.recv().await.is_some() {
        go.send_replace(true);
    }
    go.send_replace(true);
    server.stop().await
}

/// Said by [`Part::Torrent`] when its run has ended and lies as it will stay.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ended {
    /// How many frames the run has.
    pub frames: u64,
}

async fn torrent(args: ServeArgs, mut words: mpsc::Receiver<String>) -> anyhow::Result<()> {
    let (go, gone) = watch::channel(false);
    let torrent = Torrent { go: gone.clone(), pieces: args.frames, end: gone };
    let server = Server::start(&args.folder, [agent(torrent)]).await?;
    let run = server.create_run("bench").await?;
    listen(server.address.to_string(), stream_path(&run, Transport::Sse), stream_path(&run, Transport::Ws))?;
    if words.recv().await.is_some() {
        go.send_replace(true);
        let frames = loop {
            let record = server.store().run(&run).await?.context("the run is in the store")?;
            if record.ended_at.is_some() {
                break record.head;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        server.store().tidied().await;
        println!("{}", serde_json::to_string(&Ended { frames })?);
        while words.recv().await.is_some() {}
    }
    server.stop().await
}

async fn finished(args: ServeArgs, mut words: mpsc::Receiver<String>) -> anyhow::Result<()> {
    let server = Server::start(&args.folder, []).await?;
    let run = "run_finished";
    write_finished_run(server.store(), run, args.frames).await?;
    // As a run is read that did not end a moment ago.
    server.store().tidied().await;
    listen(server.address.to_string(), stream_path(run, Transport::Sse), stream_path(run, Transport::Ws))?;
    while words.recv().await.is_some() {}
    server.stop().await
}

async fn same_pieces(args: &ServeArgs) -> anyhow::Result<Vec<Piece>> {
    let (address, path) = (args.address.clone(), args.path.clone());
    let stream = tokio::task::spawn_blocking(move || crate::socket::read_all(&address, &path)).await??;
    Piece::of_stream(&stream)
}

async fn bare_live(args: ServeArgs, mut words: mpsc::Receiver<String>) -> anyhow::Result<()> {
    let mut greeting = same_pieces(&args).await?;
    let pieces = greeting.split_off(args.greeting.min(greeting.len()));
    let bare = Bare::live(greeting, pieces.len());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    listen(listener.local_addr()?.to_string(), LIVE_SSE.to_owned(), LIVE_WS.to_owned())?;
    let serving = tokio::spawn(bare.clone().serve(listener));
    if words.recv().await.is_some() {
        let mut tick = tokio::time::interval(Duration::from_millis(args.pace_ms));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for piece in pieces {
            tick.tick().await;
            bare.send(piece);
        }
        bare.end();
        while words.recv().await.is_some() {}
    }
    serving.abort();
    Ok(())
}

async fn bare_finished(args: ServeArgs, mut words: mpsc::Receiver<String>) -> anyhow::Result<()> {
    let pieces = same_pieces(&args).await?;
    if pieces.is_empty() {
        bail!("there is nothing to serve at {}{}", args.address, args.path);
    }
    let join = |pieces: &[Piece]| -> Bytes {
        let mut chunk = BytesMut::new();
        pieces.iter().for_each(|p| chunk.extend_from_slice(&p.sse));
        chunk.freeze()
    };
    let bare = Bare::finished(pieces.chunks(args.chunk.max(1)).map(join).collect());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    listen(listener.local_addr()?.to_string(), FINISHED_SSE.to_owned(), String::new())?;
    let serving = tokio::spawn(bare.serve(listener));
    while words.recv().await.is_some() {}
    serving.abort();
    Ok(())
}
