/* Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE. */
/* What Open MPI calls: the functions of the module, and starting a message. */
#ifndef PML_SPEC_CALLS_H
#define PML_SPEC_CALLS_H

#include "../objects/pml_spec_request.h"

/* pml_spec.c */
int mca_pml_spec_enable(bool enable);
void mca_pml_spec_finalize(void);

/* pml_spec_isend.c */
int mca_pml_spec_isend_init(const void *buf, size_t count, ompi_datatype_t *dtype, int dst, int tag,
                            mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                            ompi_request_t **request);
int mca_pml_spec_isend(const void *buf, size_t count, ompi_datatype_t *dtype, int dst, int tag,
                       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                       ompi_request_t **request);
int mca_pml_spec_send(const void *buf, size_t count, ompi_datatype_t *dtype, int dst, int tag,
                      mca_pml_base_send_mode_t mode, ompi_communicator_t *comm);

/* pml_spec_irecv.c */
int mca_pml_spec_irecv_init(void *buf, size_t count, ompi_datatype_t *dtype, int src, int tag,
                            ompi_communicator_t *comm, ompi_request_t **request);
int mca_pml_spec_irecv(void *buf, size_t count, ompi_datatype_t *dtype, int src, int tag,
                       ompi_communicator_t *comm, ompi_request_t **request);
int mca_pml_spec_recv(void *buf, size_t count, ompi_datatype_t *dtype, int src, int tag,
                      ompi_communicator_t *comm, ompi_status_public_t *status);
int mca_pml_spec_imrecv(void *buf, size_t count, ompi_datatype_t *dtype, ompi_message_t **message,
                        ompi_request_t **request);
int mca_pml_spec_mrecv(void *buf, size_t count, ompi_datatype_t *dtype, ompi_message_t **message,
                       ompi_status_public_t *status);

/* pml_spec_probe.c */
int mca_pml_spec_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
                        ompi_status_public_t *status);
int mca_pml_spec_probe(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status);
int mca_pml_spec_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                         ompi_message_t **message, ompi_status_public_t *status);
int mca_pml_spec_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                        ompi_status_public_t *status);

/* pml_spec_start.c: MPI_Start and MPI_Startall. */
int mca_pml_spec_start(size_t count, ompi_request_t **requests);

/* pml_spec_add_comm.c */
int mca_pml_spec_add_comm(ompi_communicator_t *comm);
int mca_pml_spec_del_comm(ompi_communicator_t *comm);
/* Nobody uses it any more. */
void mca_pml_spec_comm_free(mca_pml_spec_comm_t *comm);
/* Free the table of communicators (at finalize). */
void mca_pml_spec_cids_fini(void);

/* ---- starting a message: pml_spec_send.c, pml_spec_recv.c ---- */

/* What starts a message. */
typedef enum {
    MCA_PML_SPEC_BY_SEND,  /* a call that waits for it next */
    MCA_PML_SPEC_BY_ISEND, /* one that returns */
    MCA_PML_SPEC_BY_TURN,  /* progress: it had to wait for its turn */
} mca_pml_spec_by_t;

/* Start the message: give it its sequence number and choose the protocol. */
int mca_pml_spec_send_start(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_by_t by);

/* Something that sends to the peer waited for has happened: those whose turn it is go. No lock is held. */
void mca_pml_spec_send_turns(mca_pml_spec_peer_t *peer);

/* A send begins with a sequence number that was given before. */
void mca_pml_spec_send_begin(mca_pml_spec_send_request_t *sendreq, mca_pml_spec_rtr_t *rtr);

/* Post the request, or give it the unexpected message that it wants. blocking: the caller waits for
 * it next. */
int mca_pml_spec_recv_start(mca_pml_spec_recv_request_t *recvreq, bool blocking);

#endif
