# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'tag', chapter => 'Latency and bandwidth', title => 'What the tag of a datagram costs', paper => 'no figure of a paper',
    shown => 'Nanoseconds to authenticate one datagram: the tag of btl/ibx (CLNH and SipHash) beside GMAC (AES-256 of libsodium, AES-128 of OpenSSL), Poly1305 with a key for each datagram, and SipHash alone. The data are in the processor\'s cache.',
    expected => 'The tag costs less than GMAC and Poly1305 at every size. The argument for the choice is in SECURITY.md.',
    program => 'tagcost', quick => [qw(-r 3 -t 200)], default => [qw(-r 7 -t 1000)], full => [qw(-r 15)],
    sides => ['alone'], one_side => 1, x => 'size',
    values => [
        {key => 'clnh_ns', name => 'tag (CLNH)', unit => 'ns', better => 'less', beside => 'GMAC, OpenSSL'},
        {key => 'gmac_openssl_ns', name => 'GMAC, OpenSSL', unit => 'ns'}, {key => 'gmac_ns', name => 'GMAC, libsodium', unit => 'ns'},
        {key => 'poly1305_openssl_ns', name => 'Poly1305, OpenSSL', unit => 'ns'}, {key => 'poly1305_ns', name => 'Poly1305, libsodium', unit => 'ns'},
        {key => 'siphash_ns', name => 'SipHash', unit => 'ns'},
    ],
    draw => {x => 'bytes', logx => 1, logy => 1}, rounds => 5, seconds => 8,
}
