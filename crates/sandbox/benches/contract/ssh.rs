//! The rows of the backend `ssh`, over a line with a delay, beside `ssh` itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use vestal_config::Environment;
use vestal_testkit::ssh::{HOST, PROGRAM, SshMachine};

use crate::Result;
use crate::commands::{TASK, stateless_pair};
use crate::fixture::{BenchBackend, BenchHome, ContractBench};
use crate::options::Plan;
use vestal_bench::report::{Bar, BenchReport, BenchRow, Figure};
use vestal_bench::sample::{Samples, in_turn};
use vestal_sandbox::{Overrides, SyncMode, SyncReport};

/// How long everything is under way in each direction.
const ONE_WAY: Duration = Duration::from_millis(10);

/// A round trip, and what ours may take beside it.
const MOST: f64 = 23.0;

const FRESH: &str = "true, over 20 ms, beside a login each";
const SHARED: &str = "true, over 20 ms, beside a shared login";
const UNCHANGED: &str = "sync of 10,000 unchanged files, over 20 ms";

/// Files of the directory that is synced, and how long it may take.
const FILES: usize = 10_000;
const SYNC_MOST: f64 = 300.0;

/// Measures commands on a machine with an ssh server.
pub(crate) fn measure(report: &mut BenchReport, plan: Plan) -> Result<()> {
    let given = Environment::capture();
    if given.get(PROGRAM).is_none_or(std::ffi::OsStr::is_empty) {
        let row =
            |what: &str| BenchRow::not_run(format!("ssh: {what}"), format!("{PROGRAM} is not set"));
        report.add([FRESH, SHARED, UNCHANGED].map(row).into());
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let far = SshMachine::start(dir.path().join("far"), &[]);
    let config = delayed(&far.config(), dir.path())?;
    let home = BenchHome::open(&BenchBackend::Ssh { config: config.clone() })?;
    report.add(home.measure(async |bench| rows(&bench, plan, &config, dir.path()).await)?);
    home.close()
}

async fn rows(
    bench: &ContractBench,
    plan: Plan,
    config: &Path,
    dir: &Path,
) -> Result<Vec<BenchRow>> {
    let rounds = plan.containers.commands();
    let ssh = |more: &[&str]| {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(config).args(more);
        let status = command.status()?;
        if status.success() { Ok(()) } else { Err(format!("ssh {more:?}: {status}").into()) }
    };
    let fresh = stateless_pair(bench, TASK, rounds, || ssh(&[HOST, "true"])).await?;
    let control = dir.join("control");
    let control = control.to_str().ok_or("a path is not text")?;
    ssh(&["-S", control, "-M", "-N", "-f", HOST])?;
    let shared = stateless_pair(bench, TASK, rounds, || ssh(&["-S", control, HOST, "true"])).await;
    ssh(&["-S", control, "-q", "-O", "exit", HOST])?;
    let most = Bar::AtMost(Figure::Milliseconds(MOST));
    let synced = unchanged(bench, plan, dir).await?;
    Ok(vec![
        fresh.row(bench, FRESH).bar(most).bar(Bar::Faster(10.0)),
        shared?.row(bench, SHARED).bar(most).bar(Bar::Faster(2.0)),
        BenchRow::times(bench.label(UNCHANGED), &synced)
            .bar(Bar::AtMost(Figure::Milliseconds(SYNC_MOST))),
    ])
}

/// Syncs a directory in which nothing has changed, each time as a process that has not done so
/// before.
async fn unchanged(bench: &ContractBench, plan: Plan, dir: &Path) -> Result<Samples> {
    let project = dir.join("project");
    for number in 0..FILES {
        let below = project.join(format!("{:02}/{}", number % 100, number % 7));
        std::fs::create_dir_all(&below)?;
        std::fs::write(below.join(format!("file-{number}")), format!("{number}\n"))?;
    }
    let asked = Overrides { mount: Some(project), ..Overrides::default() };
    let sandbox = bench.engine.sandbox_with(&TASK.parse()?, &asked).await?;
    // The first copies them; the second reads those once more whose times are too new to tell.
    for _ in 0..2 {
        sandbox.sync(SyncMode::Run).await?;
    }
    let sync = async || match sandbox.sync(SyncMode::Run).await? {
        Some(report) if report == SyncReport::default() => Ok(()),
        other => Err(format!("something was synced: {other:?}").into()),
    };
    let (ours, _) = in_turn(plan.containers.commands(), sync, || Ok(())).await?;
    Ok(ours)
}

/// Puts a delay between this machine and the server, and returns an `ssh_config` that leads
/// through it.
fn delayed(config: &Path, dir: &Path) -> Result<PathBuf> {
    let text = std::fs::read_to_string(config)?;
    let port = |line: &&str| line.trim_start().starts_with("Port ");
    let line = text.lines().find(port).ok_or("the ssh_config names no port")?;
    let real: u16 = line.trim().trim_start_matches("Port ").parse()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let own = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(there) = TcpStream::connect(("127.0.0.1", real)) else { continue };
            for (from, to) in [(&stream, &there), (&there, &stream)] {
                if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
                    carry(from, to);
                }
            }
        }
    });
    let path = dir.join("delayed");
    let alias = format!("  Port {own}\n  HostKeyAlias [127.0.0.1]:{real}");
    std::fs::write(&path, text.replace(line, &alias))?;
    Ok(path)
}

/// Carries bytes, each the same while later, however many there are.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    from.set_nodelay(true).ok();
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let due = Instant::now() + ONE_WAY;
            if sender.send((due, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in receiver {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        to.shutdown(Shutdown::Both).ok();
    });
}
