//! Every message comes back as it was sent, and no bytes can do harm.

mod strategies;

use std::fmt::Debug;

use minicbor::{Decode, Encode};
use proptest::prelude::*;
use vestal_wire::limits::MAX_MESSAGE;
use vestal_wire::{
    CallEvent, CallReply, CallRequest, ContainerConfinement, DecodeError, Enclosure, EncodeError,
    Fault, GuestSettings, Hello, JobId, RuntimeLaunch, SandboxStats, Status, UserMapping, Welcome,
    decode, encode,
};

/// Holds a message against everything that is promised of all of them.
fn check<T>(
    message: &T,
    cut: prop::sample::Index,
    flip: (prop::sample::Index, u8),
) -> Result<(), TestCaseError>
where
    T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + Debug,
{
    let encoded = encode(message).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let decoded = decode::<T>(&encoded).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&decoded, message);

    let truncated = &encoded[..cut.index(encoded.len())];
    prop_assert!(decode::<T>(truncated).is_err(), "a part of a message is not a message");

    let longer = [encoded.as_slice(), &[0]].concat();
    let refused = matches!(decode::<T>(&longer), Err(DecodeError::Trailing { count: 1 }));
    prop_assert!(refused, "nothing may follow a message");

    // A damaged message may mean something else, but what it means is a
    // message, which is as good as any other.
    let mut damaged = encoded;
    let at = flip.0.index(damaged.len());
    damaged[at] ^= flip.1;
    if let Ok(other) = decode::<T>(&damaged) {
        prop_assert!(encode(&other).is_ok());
    }
    Ok(())
}

/// One test per type: the message itself, cut short, lengthened and damaged.
macro_rules! survives_the_wire {
    ($($name:ident: $strategy:expr;)+) => {
        proptest! {
            $(
                #[test]
                fn $name(
                    message in $strategy,
                    cut in any::<prop::sample::Index>(),
                    flip in (any::<prop::sample::Index>(), 1..=u8::MAX),
                ) {
                    check(&message, cut, flip)?;
                }
            )+
        }
    };
}

survives_the_wire! {
    a_hello_survives_the_wire: strategies::hello();
    a_welcome_survives_the_wire: strategies::welcome();
    a_request_survives_the_wire: strategies::request();
    an_event_survives_the_wire: strategies::event();
    a_reply_survives_the_wire: strategies::reply();
    a_fault_survives_the_wire: strategies::fault();
    a_status_survives_the_wire: strategies::status();
    stats_survive_the_wire: strategies::stats();
    guest_settings_survive_the_wire: strategies::guest_settings();
    a_job_id_survives_the_wire: strategies::job_id();
    an_enclosure_survives_the_wire: strategies::enclosure();
    users_survive_the_wire: strategies::users();
}

fn decode_as_everything(bytes: &[u8]) {
    fn ignore<T>(_: Result<T, DecodeError>) {}
    ignore(decode::<Hello>(bytes));
    ignore(decode::<Welcome>(bytes));
    ignore(decode::<CallRequest>(bytes));
    ignore(decode::<CallEvent>(bytes));
    ignore(decode::<CallReply>(bytes));
    ignore(decode::<Fault>(bytes));
    ignore(decode::<Status>(bytes));
    ignore(decode::<SandboxStats>(bytes));
    ignore(decode::<GuestSettings>(bytes));
    ignore(decode::<JobId>(bytes));
    ignore(decode::<Enclosure>(bytes));
    ignore(decode::<UserMapping>(bytes));
    ignore(decode::<RuntimeLaunch>(bytes));
    ignore(decode::<ContainerConfinement>(bytes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        decode_as_everything(&bytes);
    }

    /// Bytes that look like the beginning of a message get further in.
    #[test]
    fn no_bytes_after_a_plausible_beginning_make_decoding_panic(
        head in prop::sample::select(vec![0x82_u8, 0x9f, 0xa4, 0xb3, 0xbf]),
        variant in 0_u8..24,
        body in prop::sample::select(vec![0x80_u8, 0x81, 0x85, 0x9f, 0xa0, 0xb3, 0xbf]),
        rest in prop::collection::vec(any::<u8>(), 0..256),
    ) {
        decode_as_everything(&[&[head, variant, body], rest.as_slice()].concat());
    }
}

#[test]
fn announced_lengths_cost_nothing_before_the_bytes_are_there() {
    // CallReply::Jobs with a list, a text and a byte string of 2^63 - 1 elements.
    for announced in [0x9b, 0x7b, 0x5b] {
        let mut bytes = vec![0x82, 0x05, 0x82, announced, 0x7f];
        bytes.extend([0xff; 7]);
        assert!(decode::<CallReply>(&bytes).is_err());
        decode_as_everything(&bytes[3..]);
    }
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    // An unknown field of a map, as deep as a message can be, closed and open.
    for nested in [0x81, 0xa1, 0x9f, 0xbf, 0xc1] {
        let mut bytes = vec![0xa1, 0x18, 0x63];
        bytes.resize(MAX_MESSAGE - 1, nested);
        bytes.push(0x00);
        decode_as_everything(&bytes);
    }
}

#[test]
fn a_message_over_the_limit_is_not_encoded() {
    let fits = CallRequest::ResetSession { name: "x".repeat(MAX_MESSAGE - 16) };
    assert!(encode(&fits).is_ok());
    let name = "x".repeat(MAX_MESSAGE);
    match encode(&CallRequest::ResetSession { name }) {
        Err(EncodeError::TooLarge { size }) => assert!(size > MAX_MESSAGE),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_job_id_is_refused_by_the_decoder_too() {
    for text in ["", "..", "a/b", "A", "a b", "ä", &"x".repeat(65)] {
        assert!(text.parse::<JobId>().is_err(), "{text:?}");
        let encoded = minicbor::to_vec(text).unwrap();
        assert!(decode::<JobId>(&encoded).is_err(), "{text:?}");
    }
}
