//! The machine that the figures are of, and who else used it meanwhile.

use std::fs;

use anyhow::Context as _;
use serde_json::{Value, json};

/// Processor time that was used, in seconds.
#[derive(Clone, Copy)]
pub struct Usage {
    /// By everything on the machine.
    machine: f64,
    /// By this process and by the children that it has waited for.
    own: f64,
    /// What the hypervisor gave to others.
    stolen: f64,
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{path} cannot be read; the benchmarks need Linux's /proc"))
}

/// The fields of `/proc/<pid>/stat` after the command's name, which may itself hold spaces and brackets.
fn stat_fields(process: &str) -> anyhow::Result<Vec<f64>> {
    let text = read(&format!("/proc/{process}/stat"))?;
    let (_, fields) = text.rsplit_once(')').context("/proc/<pid>/stat has no command name")?;
    Ok(fields.split_whitespace().map(|f| f.parse().unwrap_or(0.0)).collect())
}

/// Field numbers of proc(5), counted from the state, which is the third.
const USER: usize = 14 - 3;

fn sum(fields: &[f64]) -> f64 {
    fields.iter().sum::<f64>() / ticks_per_second()
}

/// The processor time of a running process so far, user and system, in seconds; to about 10 ms.
///
/// # Errors
/// When there is no such process.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let fields = stat_fields(&pid.to_string())?;
    Ok(sum(fields.get(USER..USER + 2).context("/proc/<pid>/stat is shorter than expected")?))
}

/// The processor time of the calling thread so far, in seconds.
pub fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The processor time of a running process's threads so far, in seconds, finer than [`cpu_seconds`]. That of threads that
/// have ended is not in it, nor a running thread's turn of a few milliseconds at most, so it serves for differences within
/// a few seconds.
///
/// # Errors
/// When there is no such process, or the kernel does not count it.
pub fn threads_seconds(pid: u32) -> anyhow::Result<f64> {
    let mut nanos = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("the process has ended")? {
        // A thread may have ended since it was listed.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanos += text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).context("schedstat is not a number")?;
    }
    anyhow::ensure!(nanos > 0.0, "the kernel counts no processor time in /proc/{pid}/task/*/schedstat");
    Ok(nanos / 1e9)
}

/// How much memory of its own a running process has, in KiB: what is resident and not a file's. The kernel's buffers of
/// its sockets are not in it.
///
/// # Errors
/// When there is no such process.
pub fn memory_kib(pid: u32) -> anyhow::Result<f64> {
    let anonymous = value_of(&format!("/proc/{pid}/status"), "RssAnon").context("the process has ended")?;
    let kib = anonymous.split(' ').next().and_then(|n| n.parse().ok());
    kib.with_context(|| format!("/proc/{pid}/status says `{anonymous}` for RssAnon"))
}

impl Usage {
    /// Up to now.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn now() -> anyhow::Result<Usage> {
        let own = stat_fields("self")?;
        let own = sum(own.get(USER..USER + 4).context("/proc/self/stat is shorter than expected")?);
        let text = read("/proc/stat")?;
        let line = text.lines().next().unwrap_or_default();
        let cpu: Vec<f64> = line.split_whitespace().skip(1).map(|f| f.parse().unwrap_or(0.0)).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let [user, nice, system, _, _, irq, softirq, steal, ..] = cpu[..] else {
            anyhow::bail!("/proc/stat has fewer columns than expected");
        };
        Ok(Usage { machine: sum(&[user, nice, system, irq, softirq]), own, stolen: sum(&[steal]) })
    }

    /// What others used since `before`, as a share of all processors over `seconds`, from 0 to 1.
    pub fn others_since(self, before: Usage, seconds: f64) -> f64 {
        let machine = self.machine - before.machine + self.stolen - before.stolen;
        let others = machine - (self.own - before.own);
        (others / seconds.max(0.001) / cores() as f64).clamp(0.0, 1.0)
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn value_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The machine, for whoever compares figures.
pub fn describe() -> Value {
    let memory_kib = value_of("/proc/meminfo", "MemTotal");
    let memory_kib: Option<f64> = memory_kib.and_then(|m| m.split_whitespace().next()?.parse().ok());
    json!({
        "cores": cores(),
        "processor": value_of("/proc/cpuinfo", "model name"),
        "memory_gib": memory_kib.map(|k| (k / 1024.0 / 102.4).round() / 10.0),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|k| k.trim().to_owned()),
        "load": fs::read_to_string("/proc/loadavg").ok().map(|l| l.split(' ').take(3).collect::<Vec<_>>().join(" ")),
    })
}
