//! Connections to ports that processes of jobs listen on. Each has two threads of its own, which wait
//! for either side as long as it takes.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Duration;

use vestal_wire::{Fault, FaultCode, FileReply, JobId};

use super::workers::{Transfer, TransferInput, TransferOutput};
use crate::files::ContentSink as _;
use crate::ports;

/// Maximum number of connections at a time.
const MAX_TUNNELS: usize = 128;

/// How long a process that listens may take to accept.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Bytes copied at a time.
const PIECE: usize = 16 << 10;

const STACK: usize = 64 << 10;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// One of the connections that may be open.
struct TunnelSlot;

impl TunnelSlot {
    fn take() -> Option<Self> {
        let open = OPEN.fetch_add(1, Ordering::Relaxed);
        // Dropped, and so counted back, where there are too many.
        Some(Self).filter(|_| open < MAX_TUNNELS)
    }
}

impl Drop for TunnelSlot {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects to a port that a process below these supervisors listens on, and copies in both
/// directions until either side ends it. The calling thread has the rights of the jobs' user.
pub(super) fn begin(
    transfer: &Arc<Transfer>,
    supervisors: &[(u32, Option<JobId>)],
    port: u16,
) -> Result<(), Fault> {
    let slot = TunnelSlot::take().ok_or_else(|| {
        Fault::new(FaultCode::NoSpace, format!("{MAX_TUNNELS} connections are open already"))
    })?;
    let found = ports::listening(supervisors);
    let found = found.iter().find(|found| found.shown.port == port).ok_or_else(|| {
        Fault::new(FaultCode::NotFound, format!("no process of a job listens on port {port}"))
    })?;
    let failed = |error: std::io::Error| {
        Fault::new(FaultCode::System, format!("cannot connect to port {port}: {error}"))
    };
    let address = SocketAddr::new(reachable(found.address), port);
    let stream = TcpStream::connect_timeout(&address, CONNECT_WITHIN).map_err(failed)?;
    // Small pieces of a page are not held back; without it they are later, not lost.
    stream.set_nodelay(true).ok();
    let stream = Arc::new(stream);
    let (writing, reading) = (Arc::clone(&stream), stream);
    let (to_port, to_host) = (Arc::clone(transfer), Arc::clone(transfer));
    let thread = || Builder::new().name("tunnel".into()).stack_size(STACK);
    let writer = thread().spawn(move || write_to_port(&to_port, &writing));
    writer.map_err(failed)?;
    let reader = thread().spawn(move || {
        read_from_port(&to_host, &reading);
        drop(slot);
    });
    if let Err(error) = reader {
        // Ends the other thread.
        transfer.cancel();
        return Err(failed(error));
    }
    Ok(())
}

/// Returns the address to connect to for one that is listened on.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

fn read_from_port(transfer: &Arc<Transfer>, mut stream: &TcpStream) {
    let mut output = TransferOutput(Arc::clone(transfer));
    let mut buf = vec![0; PIECE];
    loop {
        match stream.read(&mut buf) {
            Ok(0) => break,
            Ok(read) => {
                if output.send(&buf[..read]).is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    stream.shutdown(Shutdown::Both).ok();
    transfer.finish(Ok(FileReply::Done));
}

fn write_to_port(transfer: &Arc<Transfer>, mut stream: &TcpStream) {
    let mut input = TransferInput::new(Arc::clone(transfer));
    let mut buf = vec![0; PIECE];
    loop {
        match input.read(&mut buf) {
            Ok(0) => {
                stream.shutdown(Shutdown::Write).ok();
                break;
            }
            Ok(read) => {
                if stream.write_all(&buf[..read]).is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    // The other direction continues until the process closes it or nobody listens any more.
    transfer.wait_for_end();
    stream.shutdown(Shutdown::Both).ok();
}
