//! What applications stream through today, each in a process of its own: the programs in `peers/streaming`.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use crate::agents::{DIRECT, mark};
use crate::child::ChildProcess;
use crate::machine;
use crate::serve::Listening;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The library `resumable-stream` in a Node.js application, on Redis.
    ResumableStream,
    /// The Durable Streams server for Node.js, with its streams in files.
    DurableStreams,
    /// A FastAPI application with AG-UI's Python encoder, which keeps nothing.
    FastApi,
}

impl Kind {
    /// As the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ResumableStream => "resumable-stream",
            Kind::DurableStreams => "Durable Streams",
            Kind::FastApi => "FastAPI",
        }
    }

    /// Whether what was written can be read again, so that readers may resume.
    pub fn keeps(self) -> bool {
        self != Kind::FastApi
    }

    /// What has to be there first and is not.
    pub fn lacks(self) -> Option<String> {
        let needed = match self {
            Kind::ResumableStream | Kind::DurableStreams => "node_modules/.package-lock.json",
            Kind::FastApi => ".venv/bin/uvicorn",
        };
        if !peers().join(needed).exists() {
            return Some(format!("{} (run crates/bench/peers/setup.sh)", self.name()));
        }
        let redis = || Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        (self == Kind::ResumableStream && !redis().is_ok_and(|s| s.success()))
            .then(|| "redis-server, which resumable-stream needs".to_owned())
    }
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/streaming")
}

/// A backlog in a stream that goes on.
#[derive(Debug, Deserialize)]
pub struct Filled {
    /// Where a reader resumes that has had the first half.
    pub path: String,
    /// What the last record of it says, and no other.
    pub last: String,
}

/// Said when everything was appended.
#[derive(Debug, Deserialize)]
struct Appended {
    seconds: f64,
}

/// One of them, listening, with a stream that has one record.
pub struct Contender {
    kind: Kind,
    process: ChildProcess,
    redis: Option<Redis>,
    /// Where it listens.
    pub at: Listening,
}

impl Contender {
    /// Starts it with whatever it needs; `folder` is for its files.
    ///
    /// # Errors
    /// When it does not come to listening.
    pub fn start(kind: Kind, folder: &Path) -> anyhow::Result<Contender> {
        let mut redis = None;
        let mut command = match kind {
            Kind::FastApi => {
                let mut python = Command::new(peers().join(".venv/bin/python"));
                python.arg(peers().join("fanout.py"));
                python
            }
            Kind::DurableStreams => {
                let mut node = Command::new("node");
                node.arg(peers().join("durable.mjs")).arg(folder);
                node
            }
            Kind::ResumableStream => {
                let own = redis.insert(Redis::start(folder)?);
                let mut node = Command::new("node");
                node.arg(peers().join("resumable.mjs")).arg(format!("redis://{}", own.address));
                node
            }
        };
        command.env_remove("DEBUG");
        let mut process = ChildProcess::run(command)?;
        let at: Listening = process.hear()?;
        if kind == Kind::DurableStreams {
            let mut poster = Poster::open(&at.address, "/live")?;
            poster.append(&record("hello"))?;
        }
        Ok(Contender { kind, process, redis, at })
    }

    /// The processor time that it has used so far, Redis included; in seconds.
    ///
    /// # Errors
    /// When a process has ended.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let redis = self.redis.as_ref().map_or(Ok(0.0), |r| machine::cpu_seconds(r.process.id()))?;
        Ok(self.process.cpu_seconds()? + redis)
    }

    /// So many records, at this pace, each with the time since the machine's start in it; then the stream ends.
    ///
    /// # Errors
    /// When the producer fails.
    pub fn live(&mut self, records: usize, pace: Duration, epoch: Instant) -> anyhow::Result<()> {
        if self.kind != Kind::DurableStreams {
            return self.process.tell(&format!("live {records} {}", pace.as_millis()));
        }
        let mut poster = Poster::open(&self.at.address, "/live")?;
        for _ in 0..records {
            std::thread::sleep(pace);
            poster.append(&record(&mark(DIRECT, epoch)))?;
        }
        poster.close()
    }

    /// So many records, an even number, as fast as they are taken; the stream goes on.
    ///
    /// # Errors
    /// When the producer fails.
    pub fn fill(&mut self, records: usize) -> anyhow::Result<Filled> {
        if self.kind != Kind::DurableStreams {
            self.process.tell(&format!("fill {records}"))?;
            return self.process.hear();
        }
        let mut poster = Poster::open(&self.at.address, "/live")?;
        let mut middle = String::new();
        for i in 0..records {
            let offset = poster.append(&record(&format!("record {i}.")))?;
            if i + 1 == records / 2 {
                middle = offset;
            }
        }
        Ok(Filled { path: format!("/live?offset={middle}&live=sse"), last: format!("record {}.", records - 1) })
    }

    /// So many records to each of so many streams, all streams at once, each record of a stream acknowledged before the
    /// next where there are acknowledgements; then only a tenth of them, which takes long enough. How many a second.
    ///
    /// # Errors
    /// When a producer fails.
    pub fn append(&mut self, streams: usize, records: usize) -> anyhow::Result<f64> {
        if self.kind != Kind::DurableStreams {
            self.process.tell(&format!("append {streams} {records}"))?;
            let Appended { seconds } = self.process.hear()?;
            return Ok((streams * records) as f64 / seconds);
        }
        let records = records.div_ceil(10);
        let posters = (0..streams).map(|i| Poster::open(&self.at.address, &format!("/append-{i}")));
        let posters = posters.collect::<anyhow::Result<Vec<_>>>()?;
        let started = Instant::now();
        std::thread::scope(|scope| {
            let append = |mut poster: Poster| {
                scope.spawn(move || {
                    (0..records).try_for_each(|_| poster.append(&record(crate::agents::WORDS)).map(drop))
                })
            };
            let threads: Vec<_> = posters.into_iter().map(append).collect();
            threads.into_iter().try_for_each(|t| t.join().map_err(|_| anyhow::anyhow!("a producer panicked"))?)
        })?;
        Ok((streams * records) as f64 / started.elapsed().as_secs_f64())
    }

    /// Ends it and waits for it.
    ///
    /// # Errors
    /// When it ended badly.
    pub fn finish(self) -> anyhow::Result<()> {
        self.process.finish()
    }
}

/// A record of about 200 bytes that holds the text, as the programs in Node.js make them.
fn record(text: &str) -> String {
    format!("{{\"text\":\"{text}\",\"padding\":\"{}\"}}", "x".repeat(150))
}

/// A producer of a stream of the Durable Streams server, on a connection of its own.
struct Poster {
    socket: TcpStream,
    address: String,
    path: String,
}

impl Poster {
    /// Makes the stream if it is not there.
    fn open(address: &str, path: &str) -> anyhow::Result<Poster> {
        let socket = TcpStream::connect(address).with_context(|| format!("{address} cannot be reached"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut poster = Poster { socket, address: address.to_owned(), path: path.to_owned() };
        poster.request("PUT", "", "")?;
        Ok(poster)
    }

    /// Appends a record, and answers the offset after it.
    fn append(&mut self, record: &str) -> anyhow::Result<String> {
        let head = self.request("POST", "", record)?;
        let offset = head.lines().find_map(|l| l.strip_prefix("stream-next-offset: "));
        Ok(offset.with_context(|| format!("the server said no offset: {head}"))?.to_owned())
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.request("POST", "Stream-Closed: true\r\n", "").map(drop)
    }

    /// The answer's head, with all names in lower case.
    fn request(&mut self, method: &str, header: &str, body: &str) -> anyhow::Result<String> {
        let Poster { socket, address, path } = self;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: text/plain\r\n{header}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes())?;
        let (mut came, mut buffer) = (Vec::new(), [0; 4096]);
        let end = loop {
            let read = socket.read(&mut buffer)?;
            ensure!(read > 0, "the server left without an answer to {method} {path}");
            came.extend_from_slice(&buffer[..read]);
            if let Some(end) = came.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
        };
        let head = std::str::from_utf8(&came[..end]).context("the answer's head is not text")?.to_lowercase();
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !["200", "201", "204"].contains(&status) {
            bail!("{method} {path} was answered with {head}");
        }
        let has_body = head.contains("transfer-encoding: chunked");
        let length =
            head.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(Ok(0), str::parse::<usize>)?;
        let whole = |came: &[u8]| match has_body {
            true => came.ends_with(b"0\r\n\r\n"),
            false => came.len() >= end + 4 + length,
        };
        while !whole(&came) {
            let read = socket.read(&mut buffer)?;
            ensure!(read > 0, "the server left within its answer to {method} {path}");
            came.extend_from_slice(&buffer[..read]);
        }
        Ok(head)
    }
}

/// A Redis server that keeps nothing on disk. Killed when dropped.
struct Redis {
    process: Child,
    address: String,
}

impl Redis {
    fn start(folder: &Path) -> anyhow::Result<Redis> {
        // Free a moment ago; Redis takes no port 0.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string())
            .arg("--dir")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("redis-server cannot be started")?;
        let redis = Redis { process, address: format!("127.0.0.1:{port}") };
        for _ in 0..100 {
            if TcpStream::connect(&redis.address).is_ok() {
                return Ok(redis);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("redis-server does not listen on {}", redis.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Both fail when it has ended, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
