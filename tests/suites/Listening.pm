# Loaded before memcached's tests: they learn whether their server listens by connecting to it, and to a port that
# a proxy intercepts every connection succeeds. So a connection fails without a listener, and they try again. The tests
# connect to 127.0.0.1; a server that so far listens on IPv6 only does not count. Servers listen on TCP, never on a
# local socket.
package Listening;
use strict;
use warnings;
use IO::Socket::INET;

sub listens {
    my ($port) = @_;
    open(my $rows, "<", "/proc/net/tcp") or die "/proc/net/tcp: $!";
    while (my $row = <$rows>) {
        return 1 if $row =~ /^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A / && hex($1) == $port;
    }
    return 0;
}

my $connect = \&IO::Socket::INET::new;
{
    no warnings "redefine";
    *IO::Socket::INET::new = sub {
        my ($class, @options) = @_;
        my %named = @options == 1 ? (PeerAddr => $options[0]) : @options;
        my $peer = $named{PeerAddr} // $named{PeerHost};
        if (defined $peer && ($named{Proto} // "tcp") ne "udp") {
            my ($port) = ($named{PeerPort} // $peer) =~ /(\d+)$/;
            return undef unless listens($port);
        }
        return $connect->($class, @options);
    };
}

INIT {
    no warnings "redefine";
    *MemcachedTest::supports_unix_socket = sub { return 0 };
}

1;
