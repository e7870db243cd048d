//! From a driver's delta to a reader's socket.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use runwire_engine::Agent;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agents::{COALESCED, Chatter, DIRECT, PROBE_GAP, Probe, agent, mark};
use crate::bare::{Bare, Piece, live_path};
use crate::read::Crowd;
use crate::report::{Report, quantile};
use crate::runwire::{Server, stream_path};
use crate::socket;
use crate::wire::Transport;

/// How latency is measured.
#[derive(Args, Clone, Debug)]
pub struct LatencyArgs {
    /// How many deltas that begin a segment.
    #[arg(long, default_value_t = 1000)]
    direct: usize,
    /// How many later ones.
    #[arg(long, default_value_t = 100)]
    coalesced: usize,
    /// How many other runs stream meanwhile, in the second half.
    #[arg(long, default_value_t = 100)]
    others: usize,
}

/// Measures one round into the report.
///
/// # Errors
/// When a server fails or a reader lost something.
pub fn round(args: &LatencyArgs, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for transport in [Transport::Sse, Transport::Ws] {
        let name = transport.as_str().to_uppercase();
        let bare = runtime.block_on(bare(args, transport))?;
        let bare = bare.add(report, &format!("{name}, bare axum"));
        for others in [0, args.others] {
            let folder = tempfile::tempdir_in(folder)?;
            let arrivals = runtime.block_on(runwire(args, folder.path(), transport, others))?;
            let row = format!("{name}, {others} other runs");
            let median = arrivals.add(report, &row);
            report.ratio(&format!("median, Runwire to bare axum, {row}"), median / bare);
            let mut waited = arrivals.coalesced;
            waited.sort_by(f64::total_cmp);
            report.add(&row, ("later: median", 0), quantile(&waited, 0.5));
            report.add(&row, ("later: p99", 0), quantile(&waited, 0.99));
        }
    }
    report.note("microseconds; the first columns are of deltas that begin a segment, which nothing holds back");
    report.note("later: a delta that waits up to 25 ms for others to join it, which is coalescing at work");
    Ok(())
}

/// How long each delta was under way, in microseconds.
#[derive(Debug, Default)]
pub struct Arrivals {
    direct: Vec<f64>,
    coalesced: Vec<f64>,
    /// The end of what came, where a mark may have begun.
    rest: String,
}

impl Arrivals {
    /// How many deltas came that began a segment.
    pub fn direct(&self) -> usize {
        self.direct.len()
    }

    fn take(&mut self, payload: &[u8], since_epoch: Duration) {
        self.rest.push_str(&String::from_utf8_lossy(payload));
        while let Some(start) = self.rest.find('@') {
            let Some(end) = self.rest[start + 1..].find('@').map(|i| start + 1 + i) else { break };
            let (kind, nanos) = self.rest[start + 1..end].split_at(1);
            let under_way = nanos.parse().ok().and_then(|n| since_epoch.checked_sub(Duration::from_nanos(n)));
            if let Some(under_way) = under_way {
                let micros = under_way.as_secs_f64() * 1e6;
                if kind.starts_with(DIRECT) {
                    self.direct.push(micros);
                } else if kind.starts_with(COALESCED) {
                    self.coalesced.push(micros);
                }
            }
            self.rest.drain(..=end);
        }
        if !self.rest.contains('@') {
            self.rest.clear();
        }
    }

    /// Says the direct ones, and answers their median.
    pub fn add(&self, report: &mut Report, row: &str) -> f64 {
        let mut sorted = self.direct.clone();
        sorted.sort_by(f64::total_cmp);
        let median = quantile(&sorted, 0.5);
        report.add(row, ("median", 0), median);
        report.add(row, ("p99", 0), quantile(&sorted, 0.99));
        report.add(row, ("max", 0), quantile(&sorted, 1.0));
        median
    }
}

/// Reads on a thread of its own until the stream ends; `first` is told when something came.
pub fn follow(
    transport: Transport,
    address: String,
    path: String,
    epoch: Instant,
    first: watch::Sender<bool>,
) -> std::thread::JoinHandle<anyhow::Result<Arrivals>> {
    std::thread::spawn(move || {
        let mut arrivals = Arrivals::default();
        socket::follow(transport, &address, &path, |payload, at| {
            arrivals.take(payload, at - epoch);
            first.send_if_modified(|came| !std::mem::replace(came, true));
        })?;
        Ok(arrivals)
    })
}

/// What such a thread found.
///
/// # Errors
/// When the stream broke.
pub async fn joined(reading: std::thread::JoinHandle<anyhow::Result<Arrivals>>) -> anyhow::Result<Arrivals> {
    let joined = tokio::task::spawn_blocking(move || reading.join()).await?;
    joined.map_err(|_| anyhow::anyhow!("the reader panicked"))?
}

async fn runwire(args: &LatencyArgs, folder: &Path, transport: Transport, others: usize) -> anyhow::Result<Arrivals> {
    let quiet = CancellationToken::new();
    let (go, gone) = watch::channel(false);
    let epoch = Instant::now();
    let probe = Probe { go: gone, epoch, direct: args.direct, coalesced: args.coalesced };
    let chatter = Agent { id: "chatter".to_owned(), ..agent(Chatter::new(quiet.clone())) };
    let server = Server::start(folder, [agent(probe), chatter]).await?;
    let address = server.address.to_string();

    let mut paths = Vec::new();
    for _ in 0..others {
        paths.push(stream_path(&server.create_run("chatter").await?, transport));
    }
    let crowd = if paths.is_empty() {
        None
    } else {
        let address = address.clone();
        Some(tokio::task::spawn_blocking(move || Crowd::start(&address, transport, &paths, 1)).await??)
    };

    let run = server.create_run("bench").await?;
    // The first frames are there before the run is let go, so the reader waits in its tail from then on.
    let reading = follow(transport, address, stream_path(&run, transport), epoch, go);
    let arrivals = joined(reading).await?;
    anyhow::ensure!(
        arrivals.direct.len() == args.direct && arrivals.coalesced.len() == args.coalesced,
        "{} and {} deltas came of {} and {}",
        arrivals.direct.len(),
        arrivals.coalesced.len(),
        args.direct,
        args.coalesced
    );
    quiet.cancel();
    if let Some(crowd) = crowd {
        tokio::task::spawn_blocking(move || crowd.finish()).await??;
    }
    server.stop().await?;
    Ok(arrivals)
}

/// The same from a bare server's task to the same reader.
async fn bare(args: &LatencyArgs, transport: Transport) -> anyhow::Result<Arrivals> {
    let bare = Bare::live(vec![piece("hello")?], args.direct + 1);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let serving = tokio::spawn(Arc::clone(&bare).serve(listener));
    let path = live_path(transport);
    let arrivals = probe_bare(args.direct, transport, &bare, address, path).await?;
    serving.abort();
    Ok(arrivals)
}

/// Sends so many marked pieces to a reader, and ends the stream.
///
/// # Errors
/// When the reader is refused or its stream breaks.
pub async fn probe_bare(
    direct: usize,
    transport: Transport,
    bare: &Arc<Bare>,
    address: String,
    path: &str,
) -> anyhow::Result<Arrivals> {
    let epoch = Instant::now();
    let (first, mut came) = watch::channel(false);
    let reading = follow(transport, address, path.to_owned(), epoch, first);
    came.wait_for(|came| *came).await.context("the reader was refused")?;
    // On a task of the runtime, as a driver is.
    let bare = Arc::clone(bare);
    let sending = tokio::spawn(async move {
        for _ in 0..direct {
            tokio::time::sleep(2 * PROBE_GAP).await;
            bare.send(piece(&mark(DIRECT, epoch))?);
        }
        bare.end();
        anyhow::Ok(())
    });
    sending.await??;
    joined(reading).await
}

/// A frame's event with this text, as large as a real one.
pub fn piece(text: &str) -> anyhow::Result<Piece> {
    let body = format!("{{\"filler\":\"{}\",\"text\":\"{text}\"}}", "x".repeat(150));
    let sse = format!("id: 1\ndata: {body}\n\n");
    Ok(Piece { sse: sse.into(), body: body.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_wherever_the_socket_cuts_it() {
        let stream = b"{\"text\":\"@d1000@\"} {\"text\":\"a@c2000@@d3000@b\"} {\"text\":\"none\"}";
        for step in 1..stream.len() {
            let mut arrivals = Arrivals::default();
            for piece in stream.chunks(step) {
                arrivals.take(piece, Duration::from_nanos(5000));
            }
            assert_eq!((&arrivals.direct[..], &arrivals.coalesced[..]), (&[4.0, 2.0][..], &[3.0][..]), "{step}");
        }
    }
}
