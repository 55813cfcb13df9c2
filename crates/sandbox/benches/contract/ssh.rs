//! The rows of the backend `ssh`, over a line with a delay, beside `ssh` itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use vestal_config::Environment;
use vestal_testkit::ssh::{HOST, PROGRAM, SshHost};

use crate::Result;
use crate::commands::{TASK, stateless_pair};
use crate::options::Plan;
use crate::stage::{Ground, Stage, Theatre};
use vestal_bench::report::{Bar, BenchReport, BenchRow, Figure};

/// How long everything is under way in each direction.
const ONE_WAY: Duration = Duration::from_millis(10);

/// A round trip, and what ours may take beside it.
const MOST: f64 = 23.0;

const FRESH: &str = "true, over 20 ms, beside a login each";
const SHARED: &str = "true, over 20 ms, beside a shared login";

/// Measures commands on a machine with an ssh server.
pub(crate) fn measure(report: &mut BenchReport, plan: Plan) -> Result<()> {
    let given = Environment::capture();
    if given.get(PROGRAM).is_none_or(std::ffi::OsStr::is_empty) {
        let row =
            |what: &str| BenchRow::not_run(format!("ssh: {what}"), format!("{PROGRAM} is not set"));
        report.add([FRESH, SHARED].map(row).into());
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let far = SshHost::start(dir.path().join("far"), &[]);
    let config = delayed(&far.config(), dir.path())?;
    let theatre = Theatre::open(&Ground::Ssh { config: config.clone() })?;
    report.add(theatre.perform(async |stage| rows(&stage, plan, &config, dir.path()).await)?);
    theatre.close()
}

async fn rows(stage: &Stage, plan: Plan, config: &Path, dir: &Path) -> Result<Vec<BenchRow>> {
    let rounds = plan.containers.commands();
    let ssh = |more: &[&str]| {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(config).args(more);
        let status = command.status()?;
        if status.success() { Ok(()) } else { Err(format!("ssh {more:?}: {status}").into()) }
    };
    let fresh = stateless_pair(stage, TASK, rounds, || ssh(&[HOST, "true"])).await?;
    let control = dir.join("control");
    let control = control.to_str().ok_or("a path is no text")?;
    ssh(&["-S", control, "-M", "-N", "-f", HOST])?;
    let shared = stateless_pair(stage, TASK, rounds, || ssh(&["-S", control, HOST, "true"])).await;
    ssh(&["-S", control, "-q", "-O", "exit", HOST])?;
    let most = Bar::AtMost(Figure::Milliseconds(MOST));
    Ok(vec![
        fresh.row(stage, FRESH).bar(most).bar(Bar::Faster(10.0)),
        shared?.row(stage, SHARED).bar(most).bar(Bar::Faster(2.0)),
    ])
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
