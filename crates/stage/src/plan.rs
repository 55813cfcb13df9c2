//! Reading what there is to do.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, RawFd};

use minicbor::Decode;
use vestal_wire::limits::MAX_MESSAGE;

use crate::failure::{Failure, Step, failed};
use crate::sys::descriptors;

/// Reads a plan from a descriptor that this process was started with.
pub(crate) fn read<T: for<'b> Decode<'b, ()>>(number: RawFd) -> Result<T, Failure> {
    let inherited = descriptors::inherited(number).map_err(failed(Step::Plan))?;
    let bytes = read_all(inherited)?;
    vestal_wire::decode(&bytes).map_err(|error| Failure::new(Step::Plan, error.to_string()))
}

/// Reads all that is said, up to the limit of a message.
pub(crate) fn read_all(source: impl AsFd) -> Result<Vec<u8>, Failure> {
    let own = source.as_fd().try_clone_to_owned().map_err(failed(Step::Plan))?;
    let mut bytes = Vec::new();
    let limit = MAX_MESSAGE as u64;
    File::from(own).take(limit).read_to_end(&mut bytes).map_err(failed(Step::Plan))?;
    Ok(bytes)
}
