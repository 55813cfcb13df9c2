//! What lets every minor version of a major talk to every other: unknown fields
//! are passed over, absent optional ones are absent, and unknown variants are
//! errors that the receiver can answer.

#![expect(clippy::expect_used, reason = "a helper of a test may panic as the test may")]

use std::convert::Infallible;
use std::fmt::Debug;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode, Encoder};
use vestal_wire::{
    AttachJob, CallEvent, CallReply, CallRequest, Fault, FaultCode, FileCall, FileOp, FileVersion,
    GuestSettings, Hello, HelloError, HostRole, JobExit, JobId, MAJOR, MINOR, OutputDelivery,
    SandboxStats, Status, Welcome, WindowSize, decode, encode,
};

/// Numbers that no field has yet: 23, 200 and 65,536.
const UNKNOWN: [&[u8]; 3] = [&[0x17], &[0x18, 0xc8], &[0x1a, 0, 1, 0, 0]];

/// Values a later version may give an unknown field, each of another type.
const VALUES: [&[u8]; 9] = [
    &[0x00],                               // a number
    &[0x3b, 1, 2, 3, 4, 5, 6, 7, 8],       // a negative one
    &[0x62, b'h', b'i'],                   // text
    &[0x5f, 0x41, 1, 0x41, 2, 0xff],       // bytes in pieces
    &[0x83, 0x01, 0x81, 0x02, 0xa1, 1, 2], // lists and maps
    &[0x9f, 0x01, 0xff],                   // a list without a length
    &[0xc1, 0x1a, 0, 0, 0, 1],             // something tagged
    &[0xf6],                               // null
    &[0xfb, 0, 0, 0, 0, 0, 0, 0, 0],       // a float
];

/// Returns the encoding with one more entry in the map at `at`, which must be
/// the last part of the message.
fn with_unknown_field(encoded: &[u8], at: usize, key: &[u8], value: &[u8]) -> Vec<u8> {
    assert!((0xa0..0xb7).contains(&encoded[at]), "no short map at {at} of {encoded:02x?}");
    let mut extended = [encoded, key, value].concat();
    extended[at] += 1;
    extended
}

fn unknown_fields_are_passed_over<T>(message: &T, map_at: usize)
where
    T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + Debug,
{
    let encoded = encode(message).expect("a message");
    for (key, value) in UNKNOWN.iter().flat_map(|key| VALUES.iter().map(move |v| (key, v))) {
        let extended = with_unknown_field(&encoded, map_at, key, value);
        let decoded = decode::<T>(&extended);
        assert_eq!(decoded.as_ref().ok(), Some(message), "{decoded:?} with {value:02x?}");
    }
}

fn id() -> JobId {
    "j-1".parse().expect("a job id")
}

/// Encodes by hand, as another version would.
fn by_hand(
    write: impl FnOnce(&mut Encoder<Vec<u8>>) -> Result<(), minicbor::encode::Error<Infallible>>,
) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    write(&mut encoder).expect("memory takes all");
    encoder.into_writer()
}

#[test]
fn an_unknown_field_of_a_map_is_passed_over() {
    unknown_fields_are_passed_over(&Hello::new(HostRole::Owner, Some("i1".into())), 0);
    unknown_fields_are_passed_over(&welcome(), 0);
    unknown_fields_are_passed_over(&settings(), 0);
    let status = Status {
        idle_ms: 1,
        expires_in_ms: None,
        jobs_running: 2,
        jobs_known: 3,
        up_ms: 4,
        last_used_ms: 5,
    };
    unknown_fields_are_passed_over(&status, 0);
    let stats =
        SandboxStats { processes: 1, memory_bytes: 2, cpu_ms: 3, log_bytes: 4, guest_bytes: 5 };
    unknown_fields_are_passed_over(&stats, 0);
    // Inside a variant: [4, [{…}]].
    let attach = AttachJob {
        id: id(),
        stdout_from: 1,
        stderr_from: 2,
        follow: true,
        delivery: OutputDelivery::Lossy,
    };
    unknown_fields_are_passed_over(&CallRequest::Attach(attach), 3);
}

#[test]
fn further_elements_of_an_array_are_passed_over() {
    for value in VALUES {
        let size = by_hand(|e| e.array(3)?.u16(24)?.u16(80)?.ok());
        let decoded = decode::<WindowSize>(&[&size, value].concat()).unwrap();
        assert_eq!(decoded, WindowSize { rows: 24, cols: 80 });

        // A variant's fields are an array beside its number.
        let signal = by_hand(|e| e.array(2)?.u32(9)?.array(3)?.str("j-1")?.i32(15)?.ok());
        let decoded = decode::<CallRequest>(&[&signal, value].concat()).unwrap();
        assert_eq!(decoded, CallRequest::Signal { id: id(), signal: 15 });

        // So are those of a variant that has none today.
        let touch = by_hand(|e| e.array(2)?.u32(2)?.array(1)?.ok());
        let decoded = decode::<CallRequest>(&[&touch, value].concat()).unwrap();
        assert_eq!(decoded, CallRequest::Touch);
    }
}

#[test]
fn a_missing_optional_field_is_absent() {
    let hello = by_hand(|e| e.map(3)?.u32(0)?.u16(1)?.u32(1)?.u16(0)?.u32(2)?.u32(1)?.ok());
    let expected = Hello { major: 1, minor: 0, role: HostRole::Observer, instance: None };
    assert_eq!(decode::<Hello>(&hello).unwrap(), expected);

    let call = by_hand(|e| {
        e.map(1)?.u32(2)?;
        e.array(2)?.u32(4)?.array(2)?.bytes(b"/x")?.bool(true)?.ok()
    });
    let op = FileOp::Stat { path: ByteVec::from(b"/x".to_vec()), follow: true };
    let expected = FileCall { session: None, start_dir: None, op };
    assert_eq!(decode::<FileCall>(&call).unwrap(), expected);

    let wait = by_hand(|e| e.array(2)?.u32(5)?.array(1)?.str("j-1")?.ok());
    let expected = CallRequest::Wait { id: id(), timeout_ms: None };
    assert_eq!(decode::<CallRequest>(&wait).unwrap(), expected);

    let fault = by_hand(|e| e.array(2)?.u32(6)?.str("busy")?.ok());
    assert_eq!(decode::<Fault>(&fault).unwrap(), Fault::new(FaultCode::Busy, "busy"));
}

/// Settings that a program wrote before `user` and what follows it existed.
#[test]
fn settings_of_an_older_program_mean_what_they_meant() {
    let old = by_hand(|e| {
        e.map(13)?.u32(0)?.str("i1")?.u32(1)?.str("k1")?.u32(2)?.u64(2)?;
        e.u32(3)?.bytes(b"/s")?.u32(4)?.bytes(b"/r")?.u32(6)?.u64(3)?;
        e.u32(7)?.array(0)?.u32(8)?.bytes(b"/h")?.u32(9)?.bytes(b"/w")?;
        e.u32(10)?.u64(4)?.u32(11)?.u32(5)?;
        e.u32(12)?.array(1)?.str("i0")?.u32(13)?.bool(true)?.ok()
    });
    assert_eq!(decode::<GuestSettings>(&old).unwrap(), settings());
    // A guest of that time gets just these bytes from settings that use nothing newer.
    assert_eq!(encode(&settings()).unwrap(), old);
}

#[test]
fn null_is_absent_too() {
    let fault = by_hand(|e| e.array(3)?.u32(6)?.str("busy")?.null()?.ok());
    assert_eq!(decode::<Fault>(&fault).unwrap(), Fault::new(FaultCode::Busy, "busy"));
}

#[test]
fn a_missing_field_that_is_not_optional_is_an_error() {
    let hello = by_hand(|e| e.map(1)?.u32(0)?.u16(1)?.ok());
    assert!(decode::<Hello>(&hello).is_err());
    let version = by_hand(|e| e.array(2)?.u64(1)?.u64(2)?.ok());
    assert!(decode::<FileVersion>(&version).is_err());
}

#[test]
fn an_unknown_variant_is_an_error() {
    for variant in [18, 23, 24, 255, u32::MAX] {
        let call = by_hand(|e| e.array(2)?.u32(variant)?.array(0)?.ok());
        assert!(decode::<CallRequest>(&call).is_err(), "{variant}");
        assert!(decode::<CallEvent>(&call).is_err(), "{variant}");
        assert!(decode::<CallReply>(&call).is_err(), "{variant}");
        assert!(decode::<FileOp>(&call).is_err(), "{variant}");
        let code = by_hand(|e| e.u32(variant)?.ok());
        assert!(decode::<FaultCode>(&code).is_err(), "{variant}");
        assert!(decode::<HostRole>(&code).is_err(), "{variant}");
    }
    // Within another message as well.
    let unknown_cause = by_hand(|e| e.array(2)?.u8(0)?.array(2)?.u32(99)?.array(0)?.ok());
    assert!(decode::<JobExit>(&unknown_cause).is_err());
}

#[test]
fn fields_may_come_in_any_order() {
    let hello = by_hand(|e| e.map(3)?.u32(2)?.u32(0)?.u32(1)?.u16(7)?.u32(0)?.u16(3)?.ok());
    let expected = Hello { major: 3, minor: 7, role: HostRole::User, instance: None };
    assert_eq!(decode::<Hello>(&hello).unwrap(), expected);
}

#[test]
fn sides_agree_on_the_older_minor_and_refuse_another_major() {
    let hello = |major, minor| Hello { major, minor, role: HostRole::User, instance: None };
    assert_eq!(hello(MAJOR, MINOR).agree(), Ok(MINOR));
    assert_eq!(hello(MAJOR, MINOR + 9).agree(), Ok(MINOR));
    assert_eq!(hello(MAJOR, 0).agree(), Ok(0));
    let other = MAJOR + 1;
    assert_eq!(hello(other, MINOR).agree(), Err(HelloError::Major { theirs: other }));
    let welcome = Welcome { major: other, ..welcome() };
    assert_eq!(welcome.agree(), Err(HelloError::Major { theirs: other }));
}

fn welcome() -> Welcome {
    Welcome {
        major: MAJOR,
        minor: MINOR,
        program: "1".into(),
        instance: "i1".into(),
        key: "k1".into(),
        generation: 2,
        incarnation: "n1".into(),
        boot: "b1".into(),
    }
}

fn settings() -> GuestSettings {
    let bytes = |text: &str| ByteVec::from(text.as_bytes().to_vec());
    GuestSettings {
        instance: "i1".into(),
        key: "k1".into(),
        generation: 2,
        state_dir: bytes("/s"),
        socket_dir: bytes("/r"),
        retention_ms: None,
        owner_grace_ms: Some(3),
        env: Vec::new(),
        home: bytes("/h"),
        start_dir: bytes("/w"),
        log_bytes: 4,
        jobs_kept: 5,
        previous_instances: vec!["i0".into()],
        ephemeral: true,
        user: None,
        socket_mode: None,
        inherit_env: false,
        hand_over: Vec::new(),
    }
}
