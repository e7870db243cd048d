//! Lines that are cut: at every byte, by RST, by FIN, by silence (G2, G4).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;

use crate::agent::{Agent, message};
use crate::followers::{Follower, READERS, Reader, Truth, read};
use crate::proxy::{ENDINGS, Ending, Line, Proxy};
use crate::serving::{Serving, client};
use crate::{Dice, scale};

/// An agent that goes on for as long as it takes to lose some connections.
const STEADY: &str = "[agents.steady]\ndriver = \"demo\"\npace = \"2ms\"\nrepeat = 40\n";

/// What is read by one reader over lines of which each is cut behind the next byte, until there is no such byte. Answers
/// how many bytes there were.
async fn cut_everywhere(
    server: &Serving,
    run_id: &str,
    truth: &Truth,
    reader: Reader,
    ending: impl Fn(u64) -> Ending,
) -> u64 {
    // Most of it is waiting: for what is silent, and for the second that the server asks readers by SSE to stay away.
    let workers = match reader {
        Reader::Sse => 300,
        Reader::Agui => 150,
        Reader::WebSocket => 60,
    };
    let next = AtomicU64::new(0);
    let end = AtomicU64::new(u64::MAX);
    let work = (0..workers).map(async |_| {
        let line = Arc::new(Mutex::new(None));
        let given = Arc::clone(&line);
        let proxy = Proxy::new(server.url(), move || given.lock().unwrap().take().unwrap_or(Line::Clear)).await;
        let client = client(proxy.url());
        let mut after = next.fetch_add(1, Ordering::SeqCst);
        while after < end.load(Ordering::SeqCst) {
            let ending = ending(after);
            let idle = Duration::from_millis(if ending == Ending::Silence { 800 } else { 30_000 });
            proxy.hang_up().await;
            *line.lock().unwrap() = Some(Line::Cut { after, ending });
            let cuts = proxy.cuts();
            let seen = read(&client, run_id, reader, idle, &AtomicUsize::new(0)).await;
            truth.holds(reader, &seen.all, &format!("{ending:?} behind byte {after}"));
            if proxy.cuts() > cuts {
                after = next.fetch_add(1, Ordering::SeqCst);
            } else if seen.losses == 0 {
                // The reader had everything before the cut.
                end.fetch_min(after, Ordering::SeqCst);
            }
            // Otherwise a busy machine was silent by itself, and the byte is still to be done.
        }
    });
    join_all(work).await;
    end.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_cut_behind_any_byte_costs_no_frame_and_brings_none_twice() {
    let agent = Agent::start(16 * 1024, || Box::new(message("m", ["Hi".to_owned()]).into_iter())).await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), &agent.configured("demo")).await;
    let run_id = server.create("demo").await;
    server.wait_for(&run_id, |frame| frame.data.frame_type().as_str() == "run.end").await;
    let truth = Truth::of(&server, &run_id).await;
    // Each byte with one of the endings, or with all of them.
    for shift in 0..scale(1, ENDINGS.len() as u64) {
        let readers = READERS.map(async |reader| {
            let ending = |byte| ENDINGS[((byte + shift) % ENDINGS.len() as u64) as usize];
            let bytes = cut_everywhere(&server, &run_id, &truth, reader, ending).await;
            let least: usize = truth.for_reader(reader).iter().map(String::len).sum();
            assert!(bytes > least as u64, "{reader:?}: {bytes} bytes carry a log of {least}");
            println!("{reader:?}: cut behind each of {bytes} bytes");
        });
        join_all(readers).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_live_run_over_lines_that_break_all_the_time_have_all_of_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), STEADY).await;
    for round in 0..scale(1, 20) {
        let run_id = server.create("steady").await;
        let mut proxies = Vec::new();
        let mut followers = Vec::new();
        for n in 0..12 {
            let mut dice = Dice(round * 1000 + n);
            let proxy = Proxy::new(server.url(), move || {
                let ending = ENDINGS[dice.below(3) as usize];
                // Enough to begin with, or nothing would ever come through.
                Line::Cut { after: 2000 + dice.below(10_000), ending }
            })
            .await;
            let reader = READERS[n as usize % 3];
            followers.push(Follower::of(client(proxy.url()), &run_id, reader, Duration::from_millis(700)));
            proxies.push(proxy);
        }
        for (follower, proxy) in followers.into_iter().zip(&proxies) {
            let (reader, seen) = (follower.reader, follower.until_it_ends().await);
            let truth = Truth::of(&server, &run_id).await;
            truth.holds(reader, &seen.all, &format!("round {round}"));
            assert!(proxy.cuts() > 0, "{reader:?} had a line that never broke");
        }
    }
}
