# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'inline-limit', chapter => 'Limits', title => 'The inline limit', paper => '002 fig. 4.4',
    shown => 'Ping-pong over ibx on verbs, over the size up to which a message is copied into the work request.',
    expected => 'The paper: inline sends help the host\'s processor with small messages; on its many-core card they do not (section 4.3.1.2).',
    needs => ['the RDMA device'], program => 'pingpong', arguments => [qw(--mode lat --inner 50)],
    quick => [qw(--sizes 64 --repetitions 3)], default => [qw(--sizes 8,32,64,128,256,512 --repetitions 8)], full => [qw(--sizes 8,16,32,64,128,192,256,512)],
    sides => [map { {name => "$_ bytes", of => 'spec/ibx', mca => ['btl_ibx_transport verbs', "btl_ibx_verbs_inline $_"]} } 0, 64, 128, 256],
    baseline => '256 bytes', x => 'size', values => [{key => 'us', unit => 'us', better => 'less'}], draw => {x => 'bytes', logx => 1}, rounds => 5, seconds => 10,
}
