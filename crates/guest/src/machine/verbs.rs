//! The requests, and their replies.

use std::io::{self, BufRead, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vestal_wire::machine::{
    MachineError, MachineFacts, MachineInstance, MachineName, MachineReply, MachineRequest,
    MachineState, read_packed, write_packed,
};

use super::enclosed;
use super::engine;
use super::instance::{self, IO};
use super::launch::{GuestLaunchError, is_input_open, launch};
use super::places::{
    Places, age_ms, kernel_value, machine_name, make_private_dir, millis, user_name,
};

/// Most instances that are listed.
const MAX_FOUND: usize = 1000;

/// What becomes of the streams after the reply.
#[derive(Debug)]
pub(crate) enum Answered {
    /// Nothing.
    Done,
    /// They are the connection to the guest with its socket there.
    Connect(PathBuf),
    /// They are this connection to a guest, or to a container engine.
    Connected(UnixStream),
}

/// Answers the request on `input`.
pub(crate) fn answer(
    root: &Path,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<Answered, MachineError> {
    let request: MachineRequest = read_packed(input)?;
    let places = Places::new(root.to_owned());
    let (reply, answered) = match perform(&places, request, input) {
        Ok(done) => done,
        Err(error) => (MachineReply::Failed { reason: error.to_string() }, Answered::Done),
    };
    write_packed(output, &reply)?;
    Ok(answered)
}

fn perform(
    places: &Places,
    request: MachineRequest,
    input: &mut impl BufRead,
) -> io::Result<(MachineReply, Answered)> {
    let reply = match request {
        MachineRequest::Look => MachineReply::Facts(facts(places)?),
        MachineRequest::Launch(order) => {
            let input = std::cell::RefCell::new(input);
            let is_awaited = || is_input_open(&mut **input.borrow_mut());
            match launch(places, &order, is_awaited) {
                Ok(reply) => reply,
                Err(GuestLaunchError::Io { what, source }) => {
                    MachineReply::NotStarted { reason: format!("{what}: {source}") }
                }
                Err(error) => MachineReply::NotStarted { reason: error.to_string() },
            }
        }
        MachineRequest::State { instance } => {
            let dir = places.instance(&instance)?;
            match elsewhere(&dir)? {
                Some(other) => MachineReply::Elsewhere(other),
                None => MachineReply::State(match instance::state(&dir)? {
                    // What belonged to a process is not started again: only its directory is
                    // left, which a guest in namespaces cannot remove.
                    MachineState::Stopped { .. } if has_owner(&dir)? => MachineState::Absent,
                    state => state,
                }),
            }
        }
        MachineRequest::Connect { instance } => {
            let dir = places.instance(&instance)?;
            if let Some(other) = elsewhere(&dir)? {
                MachineReply::Elsewhere(other)
            } else if instance::is_enclosed(&dir) {
                match enclosed::connect(&dir)? {
                    Some(stream) => return Ok((MachineReply::Done, Answered::Connected(stream))),
                    None => MachineReply::NotListening,
                }
            } else if instance::is_running(&dir) {
                return Ok((MachineReply::Done, Answered::Connect(dir.join(IO))));
            } else {
                MachineReply::NotListening
            }
        }
        MachineRequest::End { instance } => {
            let dir = places.instance(&instance)?;
            let _lock = places.lock(&instance)?;
            match elsewhere(&dir)? {
                Some(other) => MachineReply::Elsewhere(other),
                None => {
                    instance::end(&dir, &instance)?;
                    MachineReply::Done
                }
            }
        }
        MachineRequest::Remove { instance } => {
            let dir = places.instance(&instance)?;
            let lock = places.lock(&instance)?;
            match elsewhere(&dir)? {
                Some(other) => MachineReply::Elsewhere(other),
                None => {
                    lock.mark_removed()?;
                    instance::end(&dir, &instance)?;
                    instance::remove_tree(&dir)?;
                    places.sweep_marks();
                    MachineReply::Done
                }
            }
        }
        MachineRequest::Find { home, key } => {
            MachineReply::Found(find(places, home.as_deref(), key.as_deref())?)
        }
        MachineRequest::Files { key } => {
            use std::os::unix::ffi::OsStrExt as _;
            let files = places.sandbox(&key)?;
            let there = ["workspace", "home"].map(|name| files.join(name)).into_iter();
            let there = there.filter(|path| path.is_dir());
            MachineReply::Files(
                there.map(|path| path.as_os_str().as_bytes().to_vec().into()).collect(),
            )
        }
        MachineRequest::RemoveFiles { key, keep_files } => {
            let files = places.sandbox(&key)?;
            let gone = if keep_files { files.join("state") } else { files };
            instance::remove_tree(&gone)?;
            MachineReply::Done
        }
        MachineRequest::Survey { stage } => enclosed::survey(places, &stage)?,
        MachineRequest::Rehearse { name, enclosed } => {
            match enclosed::rehearse(places, &name, &enclosed) {
                Ok(()) => MachineReply::Done,
                Err(error) => MachineReply::NotStarted { reason: error.to_string() },
            }
        }
        MachineRequest::Engine => match engine::connect() {
            Ok(stream) => return Ok((MachineReply::Done, Answered::Connected(stream))),
            Err(reason) => MachineReply::NoEngine { reason },
        },
    };
    Ok((reply, Answered::Done))
}

/// Returns whether an instance belongs to a process.
fn has_owner(dir: &Path) -> io::Result<bool> {
    Ok(instance::read_label(dir)?.is_some_and(|label| label.owner.is_some()))
}

/// Returns the machine of an instance if it is another one, which shares this one's home.
fn elsewhere(dir: &Path) -> io::Result<Option<MachineName>> {
    let label = instance::read_label(dir)?;
    let made_on = label.and_then(|label| label.machine);
    Ok(made_on.filter(|made_on| made_on.id != machine_name().id))
}

fn find(
    places: &Places,
    home: Option<&str>,
    key: Option<&str>,
) -> io::Result<Vec<MachineInstance>> {
    let mut found = instance::labelled(places, |label| {
        home.is_none_or(|home| label.home == home) && key.is_none_or(|key| label.key == key)
    });
    let here = machine_name();
    // One of another machine is found there.
    found.retain(|(_, label)| label.machine.as_ref().is_none_or(|made_on| made_on.id == here.id));
    found.truncate(MAX_FOUND);
    found
        .into_iter()
        .map(|(dir, label)| {
            let created =
                label.created_ms.map(|created| UNIX_EPOCH + Duration::from_millis(created));
            Ok(MachineInstance {
                state: instance::state(&dir)?,
                places: places.describe(&label.key)?,
                age_ms: created.and_then(age_ms),
                label,
            })
        })
        .collect()
}

fn facts(places: &Places) -> io::Result<MachineFacts> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    make_private_dir(places.root())?;
    let volume = rustix::fs::statvfs(places.root())?;
    Ok(MachineFacts {
        name: machine_name(),
        kernel: kernel_value("osrelease"),
        user: user_name(),
        clock_ms: millis(SystemTime::now()),
        free_bytes: volume.f_bavail.saturating_mul(volume.f_frsize),
        root: places.root().as_os_str().as_bytes().to_vec().into(),
        program: std::fs::read_link("/proc/self/exe")?.into_os_string().into_vec().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vestal_wire::machine::{InstanceLabel, pack};

    fn asked(root: &Path, request: &MachineRequest) -> MachineReply {
        let mut output = Vec::new();
        let input = pack(request).unwrap();
        answer(root, &mut &input[..], &mut output).unwrap();
        read_packed(&mut &output[..]).unwrap()
    }

    fn label(machine: Option<MachineName>) -> InstanceLabel {
        InstanceLabel {
            instance: "a1".into(),
            key: "k1".into(),
            home: "h1".into(),
            task: "default".into(),
            generation: 2,
            owner: None,
            spec: "s".into(),
            machine,
            created_ms: Some(1),
            is_enclosed: None,
        }
    }

    #[test]
    fn an_instance_of_another_machine_that_shares_the_home_is_never_touched() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("instances/a1");
        std::fs::create_dir_all(dir.join(IO)).unwrap();
        let other = MachineName { id: "0123".into(), host: "other".into() };
        instance::write_label(&dir, &label(Some(other.clone()))).unwrap();
        let instance = || "a1".to_owned();
        for request in [
            MachineRequest::State { instance: instance() },
            MachineRequest::Connect { instance: instance() },
            MachineRequest::End { instance: instance() },
            MachineRequest::Remove { instance: instance() },
        ] {
            let expected = MachineReply::Elsewhere(other.clone());
            assert_eq!(asked(root.path(), &request), expected, "{request:?}");
        }
        let found = asked(root.path(), &MachineRequest::Find { home: None, key: None });
        assert_eq!(found, MachineReply::Found(Vec::new()));
        assert!(dir.join(IO).is_dir());
    }

    #[test]
    fn what_belonged_to_a_process_is_not_there_once_its_guest_has_ended() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("instances/a1");
        std::fs::create_dir_all(dir.join(IO)).unwrap();
        let state = |owner: Option<String>| {
            let label = InstanceLabel { owner, ..label(Some(machine_name())) };
            instance::write_label(&dir, &label).unwrap();
            asked(root.path(), &MachineRequest::State { instance: "a1".into() })
        };
        assert!(matches!(state(None), MachineReply::State(MachineState::Stopped { .. })));
        assert_eq!(state(Some("{}".into())), MachineReply::State(MachineState::Absent));
    }

    #[test]
    fn an_instance_is_found_by_its_home_and_its_key_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("instances/a1");
        std::fs::create_dir_all(dir.join(IO)).unwrap();
        instance::write_label(&dir, &label(Some(machine_name()))).unwrap();
        let find = |home: Option<&str>, key: Option<&str>| {
            let (home, key) = (home.map(str::to_owned), key.map(str::to_owned));
            match asked(root.path(), &MachineRequest::Find { home, key }) {
                MachineReply::Found(found) => found.len(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([find(None, None), find(Some("h1"), None), find(None, Some("k1"))], [1, 1, 1]);
        assert_eq!([find(Some("h2"), None), find(None, Some("k2"))], [0, 0]);
        let state = || asked(root.path(), &MachineRequest::State { instance: "a1".into() });
        assert!(matches!(state(), MachineReply::State(MachineState::Stopped { for_ms: Some(_) })));
        let removal = MachineRequest::Remove { instance: "a1".into() };
        for _ in 0..2 {
            assert_eq!(asked(root.path(), &removal), MachineReply::Done);
            assert_eq!(state(), MachineReply::State(MachineState::Absent));
        }
        assert_eq!(find(None, None), 0);
    }
}
